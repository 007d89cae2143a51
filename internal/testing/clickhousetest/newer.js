// A ClickHouse of today behind a small part of its HTTP interface: chDB, which is the same engine as a library.
const { Session } = require("chdb");
const session = new Session();
let database = "default";
const ofHTTP = ["database", "default_format", "wait_end_of_query"];
require("http").createServer((req, res) => {
	const parts = [];
	req.on("data", (part) => parts.push(part));
	req.on("end", () => {
		const asked = new URL(req.url, "http://localhost").searchParams;
		try {
			const wanted = asked.get("database") || "default";
			if (wanted !== database) session.query("USE " + wanted);
			database = wanted;
			for (const [name, value] of asked) if (!ofHTTP.includes(name)) session.query(`SET ${name} = '${value}'`);
			res.end(session.query(Buffer.concat(parts).toString(), asked.get("default_format") || "TabSeparated"));
		} catch (err) {
			res.statusCode = 500;
			res.end(err.message);
		}
	});
}).listen(+process.argv[2], "127.0.0.1");
