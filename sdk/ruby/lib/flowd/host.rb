# frozen_string_literal: true

require "flowd"

module Flowd
  # A program, and flowd's side of its pipes: for tests, and for flowd-test.
  class Host
    attr_reader :link, :pid

    # Starts a program and says hello. What it prints to standard output goes to standard error.
    def initialize(*command, kind: "step", config: nil, **hello)
      their_in, @out = IO.pipe
      @in, their_out = IO.pipe
      env = { "FLOWD_PROGRAM_PROTOCOL" => "1" }
      @pid = Process.spawn(env, *command, 3 => their_in, 4 => their_out, in: File::NULL, out: :err)
      [their_in, their_out].each(&:close)
      @link = Link.new(@in, @out)
      @link.send_frame({ type: "hello", version: 1, kind: kind, name: "test", pipeline: "test", instance: 0, config: config,
                         limits: { body: 64 << 20, window: 1024 }, position: nil }.merge(hello))
    end

    # Returns header and body of the next frame. It raises Closed if there is none.
    def receive
      @link.receive
    end

    # Closes the pipe, and returns the exit status of the program, or the number of its signal.
    def close
      @out.close unless @out.closed?
      status = Process.wait2(@pid)[1]
      status.exitstatus || -status.termsig
    end

    # Returns index, result and payloads of each result in a frame. The payloads are nil if they are unchanged.
    def self.results(header, body)
      at = 0
      header["results"].each_with_index.map do |result, i|
        result = { "size" => result } if result.is_a?(Integer)
        result ||= {}
        sizes = result["parts"] || [result["size"]].compact
        payloads = sizes.map { |size| body.byteslice((at += size) - size, size) }
        ends = result["drop"] || result["error"]
        [i + header.fetch("first", 0), result, payloads.empty? && !ends ? nil : payloads]
      end
    end
  end
end
