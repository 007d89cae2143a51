Gem::Specification.new do |s|
  s.name = "flowd-sdk"
  s.version = "0.1.0"
  s.summary = "Write steps, inputs and outputs of flowd in Ruby"
  s.authors = ["The flowd authors"]
  s.homepage = "https://github.com/flowd-io/flowd"
  s.license = "Apache-2.0"
  s.required_ruby_version = ">= 3.0"
  s.files = Dir["lib/**/*.rb", "exe/*", "README.md", "LICENSE"]
  s.bindir = "exe"
  s.executables = ["flowd-test"]
  s.metadata = { "rubygems_mfa_required" => "true" }
end
