# frozen_string_literal: true

require "json"

module Flowd
  # The other side has closed its pipe. No "rescue => e" of a handler catches it.
  class Closed < SystemExit
    def initialize(status = 0)
      super(status, "flowd has closed its pipe")
    end
  end

  # Reads and writes frames, as docs/programs.md of flowd specifies them. Any thread may write; only one may receive.
  class Link
    MAX_HEADER = 16 << 20
    NESTING = 1000

    def self.frame(header, bodies = [])
      header = JSON.generate(header) unless header.is_a?(String)
      [header.bytesize, bodies.sum(&:bytesize)].pack("NN") << header.b << bodies.join.b
    end

    def initialize(reader, writer)
      @reader, @writer = reader, writer
      @reader.binmode
      @writer.binmode
      @writer.sync = true
      @received = String.new(encoding: Encoding::BINARY)
      @lock = Mutex.new # guards the fields below, and keeps frames whole
      @counts = Hash.new(0)
      @counts_due = 0
    end

    # Returns header and body of the next frame, or nil if none arrives within timeout seconds.
    def receive(timeout = nil)
      loop do
        frame = cut and return frame
        return if timeout && !IO.select([@reader], nil, nil, timeout)

        @received << @reader.readpartial(1 << 18)
      end
    rescue EOFError, Errno::EPIPE, Errno::ECONNRESET
      raise Closed
    end

    def send_frame(header, bodies = [])
      write(Link.frame(header, bodies))
    end

    # Writes whole frames, after the counters that wait for the next frame.
    def write(frames)
      @lock.synchronize do
        counters = @counts.map do |(name, labels), value|
          Link.frame({ type: "metric", name: name, kind: "counter", value: value, labels: labels })
        end
        @counts_due = now + 1 unless counters.empty?
        @counts.clear
        @writer.write(counters.join << frames)
      end
    rescue Errno::EPIPE
      raise Closed
    end

    # Adds to a counter, which goes out with the next frame, or at once if none went out for a second.
    def count(name, value, labels)
      @lock.synchronize { @counts[[name, labels]] += value }
      write("".b) if now > @counts_due
    end

    private

    def cut
      return if @received.bytesize < 8

      head, size = @received.unpack("NN")
      raise "flowd has sent a header of #{head} bytes" if head > MAX_HEADER
      return if @received.bytesize < 8 + head + size

      header = JSON.parse(@received.byteslice(8, head).force_encoding(Encoding::UTF_8), max_nesting: NESTING)
      body = @received.byteslice(8 + head, size)
      @received = @received.byteslice(8 + head + size..)
      [header, body]
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
