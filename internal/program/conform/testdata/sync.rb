require_relative "../../../../sdk/ruby/lib/flowd"

puts "prints do no harm"

Flowd.step do |msg|
  puts "measure"
  msg.doc["size"] = msg.doc["text"].size
  msg.meta["measured"] = true
end

Flowd.output { |msg| Flowd.log.debug("write", text: msg.doc["text"][0, 10]) }

Flowd.input do |input|
  n = input.position.to_i
  loop { input.emit({ n: n += 1 }, position: n) }
end

Flowd.settled { |_msg, fate, _error| Flowd.metric.count("settled_total", fate: fate) }
