require_relative "../../../../sdk/ruby/lib/flowd"

Flowd.step(concurrency: 8) do |msg|
  sleep 0.001
  msg.doc["size"] = msg.doc["text"].size
  msg.meta["measured"] = true
end

Flowd.output(concurrency: 8) do |msg|
  sleep 0.001
  raise "no text" unless msg.doc["text"]
end

Flowd.input do |input|
  n = input.position.to_i
  loop { input.emit({ n: n += 1 }, position: n) }
end
