require_relative "../../../../sdk/ruby/lib/flowd"

Flowd.step(batch: true) do |msgs|
  msgs.each { |msg| msg.doc["size"] = msg.doc["text"].size }
end

Flowd.output(batch: true) do |msgs|
  msgs.each { |msg| raise "no text" unless msg.doc["text"] }
end

Flowd.input do |input|
  (input.position.to_i + 1...3000).each { |n| input.emit({ n: n }, position: n) }
end
