# frozen_string_literal: true

require_relative "message"

module Flowd
  # A batch frame, and those of its results that have not been written yet.
  class Batch
    attr_reader :number, :messages, :results
    attr_accessor :unanswered

    def initialize(header, body)
      @number, @results = header["batch"], {}
      deadline = header["timeout"] && Process.clock_gettime(Process::CLOCK_MONOTONIC) + header["timeout"]
      meta, attempts, errors, key = header.values_at("meta", "attempts", "errors", "key")
      at = 0
      @messages = header["sizes"].each_with_index.map do |size, i|
        at += size
        Message.new(body.byteslice(at - size, size), meta: meta && meta[i], attempt: attempts ? attempts[i] : 0,
                                                     error: errors && errors[i], deadline: deadline, key: key)
      end
      @unanswered = @messages.size
    end

    # Returns frames with the results so far, none of which is larger than limit unless one result is.
    def take_results(limit)
      frames, run, size = "".b, [], 0
      @results.sort_by(&:first).each do |i, (text, bodies)|
        n = text.bytesize + bodies.sum(&:bytesize)
        if !run.empty? && (i != run.last[0] + 1 || size + n > limit)
          frames << cut(run)
          run, size = [], 0
        end
        run << [i, text, bodies]
        size += n
      end
      frames << cut(run) unless run.empty?
      @unanswered -= @results.size
      @results.clear
      frames
    end

    private

    def cut(run)
      texts = run.map { |_, text| text }.join(",")
      Link.frame(%({"type":"results","batch":#{@number},"first":#{run[0][0]},"results":[#{texts}]}), run.flat_map(&:last))
    end
  end

  # Serves the batches of a step or an output: in the main thread, or in several threads.
  class Steps
    FLUSH = 0.05 # seconds that a result waits for others of its batch
    LARGE = 4 << 20 # bytes of results that are worth a frame

    def initialize(link, handler, writes:, batch:, concurrency:, limit:)
      @link, @handler, @writes, @batchwise, @concurrency, @limit = link, handler, writes, batch, concurrency, limit
      @lock = Mutex.new # guards batches and their results
      @batches = {} # those with unanswered messages, by number
      @jobs = Thread::Queue.new # pairs of a batch and indices of its messages
      @written = now
      @draining = @ending = @reading = false
    end

    def serve(ready)
      Flowd.on_term do
        @ending = true
        raise Closed if @reading
      end
      @link.send_frame(ready)
      @concurrency > 1 ? serve_in_threads : serve_here
      0
    end

    private

    def serve_here
      until @ending && @jobs.empty?
        @reading = @jobs.empty?
        read(@reading ? nil : 0) unless @ending
        @reading = false
        nil while !@ending && read(0)
        work(*@jobs.pop) unless @jobs.empty?
      end
    end

    def serve_in_threads
      threads = Array.new(@concurrency) do
        Thread.new do
          while (job = @jobs.pop)
            work(*job)
          end
        end
      end
      until @ending
        @reading = @lock.synchronize { @batches.empty? }
        read(@reading ? nil : FLUSH) unless @ending
        @reading = false
        @lock.synchronize { flush } if now > @written + FLUSH
      end
      @jobs.close
      threads.each(&:join)
    end

    # Takes in the next frame, and returns whether there was one.
    def read(timeout)
      header, body = @link.receive(timeout)
      @reading = false
      case header && header["type"]
      when "batch"
        batch = Batch.new(header, body)
        @lock.synchronize { @batches[batch.number] = batch }
        each = (0...batch.messages.size).to_a
        @batchwise || @concurrency == 1 ? @jobs << [batch, each] : each.each { |i| @jobs << [batch, [i]] }
      when "cancel"
        batch = @lock.synchronize { @batches[header["batch"]] }
        (header["indices"] || batch.messages.each_index).each { |i| batch.messages[i].cancel } if batch
      when "drain"
        @draining = true
      end
      !header.nil?
    rescue Closed
      raise unless @draining # flowd was killed: nobody needs the results

      @ending = true
      false
    end

    def work(batch, indices)
      messages = batch.messages
      if @batchwise
        error = messages.all?(&:cancelled?) ? nil : call(messages)
        return keep(batch, indices, messages.map { |msg| msg.result(error, @writes, @limit) })
      end
      @written = now if @concurrency == 1
      indices.each do |i|
        msg = messages[i]
        error = msg.cancelled? ? nil : call(msg)
        slow = keep(batch, [i], [msg.result(error, @writes, @limit)])
        nil while slow && @concurrency == 1 && !@ending && read(0)
      end
    end

    def call(argument)
      @handler.call(argument)
      nil
    rescue *FAILURES => e
      e
    end

    # Keeps results, and returns whether they were written because some have waited for long.
    def keep(batch, indices, results)
      @lock.synchronize do
        indices.zip(results) { |i, result| batch.results[i] = result }
        slow = now > @written + FLUSH
        flush if slow || batch.results.size == batch.unanswered
        slow
      end
    end

    def flush
      frames = @batches.values.map { |batch| batch.take_results([@limit, LARGE].min) }.join
      @batches.reject! { |_, batch| batch.unanswered.zero? }
      @link.write(frames) unless frames.empty?
      @written = now
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
