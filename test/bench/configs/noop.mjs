const flowd = await import(process.env.SDK + "/node/index.js");

flowd.step(() => {}, { batch: true });
