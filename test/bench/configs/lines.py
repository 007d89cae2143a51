import sys

write = sys.stdout.buffer.write
for line in sys.stdin.buffer:
    write(line)
