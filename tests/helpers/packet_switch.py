"""A network switch in a process: packets between TUN devices, with a delay, a limited rate and links that can be cut.

Run by ``machines.Machines``, which moves each device into the network namespace of a machine. It stands in for
``tc qdisc add ... netem delay 1ms rate 1gbit``, which many kernels do not have. A packet waits until the link of its
sender is free, then until that of its receiver is, and arrives after the delay. Packets to or from a machine
whose link is cut disappear, and neither end is told, as when a cable is pulled behind another switch.

Reads commands, one on a line: "cut ADDRESS", "restore ADDRESS", "bytes", and answers each with a line of JSON, the
bytes that each machine has received since the start. Ends with its standard input.
"""

import fcntl
import heapq
import itertools
import json
import os
import select
import socket
import struct
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PACKETS_AT_ONCE = 64  # read from a device before others have their turn
MAX_PACKET_BYTES = 65536


def open_device(name: str) -> int:
    """A new TUN device: what the kernel sends to it is read here, one IP packet at a time."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


class Switch:
    """The links of all machines, by address."""

    def __init__(self, devices: dict[str, int], delay_seconds: float, bytes_per_second: float) -> None:
        self.devices, self.delay_seconds, self.bytes_per_second = devices, delay_seconds, bytes_per_second
        self.addresses = {device: address for address, device in devices.items()}
        self.cut: set[str] = set()
        self.received = dict.fromkeys(devices, 0)
        self.sending_until = dict.fromkeys(devices, 0.0)
        self.receiving_until = dict.fromkeys(devices, 0.0)
        self.waiting: list[tuple[float, int, str, str, bytes]] = []  # arrival, number, sender, receiver, packet
        self.numbers = itertools.count()

    def accept(self, device: int) -> None:
        """Take the packets that a machine has sent."""
        sender, now = self.addresses[device], time.monotonic()
        for _ in range(PACKETS_AT_ONCE):
            try:
                packet = os.read(device, MAX_PACKET_BYTES)
            except OSError:  # nothing more, or the device is not up yet
                return
            receiver = socket.inet_ntoa(packet[16:20]) if packet[0] >> 4 == 4 else ""
            if receiver not in self.devices:
                continue
            seconds = len(packet) / self.bytes_per_second
            sent = self.sending_until[sender] = max(now, self.sending_until[sender]) + seconds
            there = self.receiving_until[receiver] = max(sent, self.receiving_until[receiver] + seconds)
            heapq.heappush(self.waiting, (there + self.delay_seconds, next(self.numbers), sender, receiver, packet))

    def deliver(self) -> float | None:
        """Hand over the packets that have arrived by now; returns the seconds until the next one does."""
        while self.waiting:
            seconds = self.waiting[0][0] - time.monotonic()
            if seconds > 0:
                return seconds
            _, _, sender, receiver, packet = heapq.heappop(self.waiting)
            if not self.cut & {sender, receiver}:
                try:
                    os.write(self.devices[receiver], packet)
                    self.received[receiver] += len(packet)
                except OSError:  # the device is gone, with its namespace
                    continue
        return None

    def obey(self, command: str) -> None:
        verb, *addresses = command.split()
        if verb == "cut":
            self.cut.update(addresses)
        elif verb == "restore":
            self.cut.difference_update(addresses)
        print(json.dumps(self.received), flush=True)

    def run(self) -> None:
        """Until the standard input ends."""
        commands = b""
        while True:
            ready, _, _ = select.select([0, *self.addresses], [], [], self.deliver())
            for device in ready:
                if device:
                    self.accept(device)
                    continue
                read = os.read(0, 4096)
                if not read:
                    return
                *lines, commands = (commands + read).split(b"\n")
                for line in lines:
                    self.obey(line.decode())


def main() -> None:
    delay_seconds, bytes_per_second, *links = sys.argv[1:]
    os.nice(-10)  # its delays are those of the network, not of a busy processor
    devices = {address: open_device(name) for name, address in (link.split("=") for link in links)}
    switch = Switch(devices, float(delay_seconds), float(bytes_per_second))
    print("ready", flush=True)
    switch.run()


if __name__ == "__main__":
    main()
