"""A net to an etcd cluster in which the answers are scripted: it takes the place of the connections of its client."""

import asyncio
import base64
import json

import httpx

from apportion.stores.etcd import wire
from apportion.stores.etcd.messages import text_of

LIFE = {"key": text_of(b"!apportion/incarnation"), "value": text_of(b"1 7 2"), "mod_revision": "2"}


class Net:
    """Answers each request of a client with `answer(request)`; a request that opens a connection says so first."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(wire, "_client", self.client)
        monkeypatch.setattr(wire.random, "randrange", lambda count: 0)
        self.asked, self.clients, self.opens = [], [], True
        self.answer = lambda request: httpx.Response(200, content=b"{}")

    async def handle(self, request):
        if self.opens and "trace" in request.extensions:
            await request.extensions["trace"]("connection.connect_tcp.complete", {})
            await request.extensions["trace"]("connection.connect_tcp.started", {})
        self.asked.append(request)
        answer = self.answer(request)
        return await answer if asyncio.iscoroutine(answer) else answer

    def client(self, trust, limits):
        self.clients.append((httpx.AsyncClient(transport=httpx.MockTransport(self.handle)), limits))
        return self.clients[-1][0]


def failing(error):
    def answer(request):
        raise error

    return answer


def refused(status, **fields):
    return lambda request: httpx.Response(status, content=json.dumps(fields).encode())


async def silence(request):
    await asyncio.sleep(3600)


def no(code, message, status=400):
    """Return what the gateway answers when a server says no."""
    return refused(status, code=code, message=message)


def replied(*replies):
    """Return an answer of so many lines."""
    return httpx.Response(200, content=b"\n".join(json.dumps(each).encode() for each in replies))


class Cluster:
    """A cluster at revision 9 of life 1. `said`: functions that answer the next requests for a path."""

    def __init__(self, net):
        self.net, self.said, self.revision, self.life = net, {}, 9, LIFE
        self.keys, self.asked = [], []
        net.answer = self.answer

    def answer(self, request):
        path, lines = request.url.path, [json.loads(line) for line in request.content.splitlines()]
        self.asked.append((path, lines[0]))
        script = self.said.get(path)
        found = script.pop(0)(request) if script else getattr(self, path.rpartition("/")[2])(*lines)
        return replied(*found) if isinstance(found, list) else found

    @property
    def header(self):
        return {"cluster_id": "7", "revision": f"{self.revision}"}

    @property
    def lives(self):
        return {"kvs": [self.life]} if self.life else {}

    def page(self, wanted):
        start = base64.b64decode(wanted["key"])
        left = [each for each in self.keys if each >= start]
        found = left[: wanted["limit"]]
        kvs = [{"key": text_of(key), "value": text_of(b"v"), "mod_revision": "3"} for key in found]
        return {**({"kvs": kvs} if kvs else {}), **({"more": True} if len(left) > len(found) else {})}

    def range(self, body):
        if base64.b64decode(body["key"]) == b"!apportion/incarnation":
            return [{"header": self.header, **self.lives}]
        return [{"header": self.header, **self.page(body)}]

    def txn(self, body):
        wanted = [each["request_range"] for each in body["success"] if "request_range" in each]
        if len(wanted) == 2:
            parts = [{"response_range": self.lives}, {"response_range": self.page(wanted[1])}]
            return [{"header": self.header, "succeeded": True, "responses": parts}]
        put = body["success"][0]["request_put"]
        if put["key"] == LIFE["key"]:
            self.life = {**LIFE, "value": put["value"]}
        self.revision += 1
        return [{"header": self.header, "succeeded": True}]

    def status(self, body):
        return [{"header": self.header, "raftAppliedIndex": f"{self.revision + 4}"}]

    def grant(self, body):
        return [{"header": self.header, "ID": "5", "TTL": body["TTL"]}]

    def revoke(self, body):
        return [{"header": self.header}]

    def keepalive(self, *bodies):
        return [{"result": {"header": self.header, "ID": each["ID"], "TTL": "9"}} for each in bodies]

    def count(self, path):
        return sum(path == asked for asked, _ in self.asked)
