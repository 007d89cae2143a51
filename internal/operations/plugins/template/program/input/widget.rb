require "flowd"

Flowd.input do |input|
  (input.position.to_i + 1..input.config["to"]).each do |n|
    input.emit({ n: n }, position: n)
  end
end
