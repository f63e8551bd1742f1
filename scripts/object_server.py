"""A server of S3 on this machine, for scripts that read captures from buckets. It is moto, from the package moto[s3,server]."""

import contextlib
import importlib.util
import socket
import subprocess
import sys
import time
import urllib.request


def is_installed():
    """True if this Python has the server."""
    return importlib.util.find_spec("moto") is not None and importlib.util.find_spec("flask") is not None


class ObjectServer:
    """A server of S3 with the bucket `bench`."""

    def __enter__(self):
        with contextlib.closing(socket.socket()) as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        command = [sys.executable, "-m", "moto.server", "-p", str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.root = f"http://127.0.0.1:{port}"
        keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
        self.environment = {"AWS_ENDPOINT_URL": self.root, **keys}
        for _ in range(300):
            try:
                self.put("bench", b"")
                return self
            except OSError:
                time.sleep(0.2)
        self.__exit__()
        sys.exit("moto does not start: pip install 'moto[s3,server]'")

    def put(self, path, content):
        headers = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{self.root}/{path}", content, headers, method="PUT")
        urllib.request.urlopen(request, timeout=60).read()

    def upload(self, runs):
        """Puts the files of a folder below the prefix `runs`."""
        for path in runs.iterdir():
            if path.is_file():
                self.put(f"bench/runs/{path.name}", path.read_bytes())

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
