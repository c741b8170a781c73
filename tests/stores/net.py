"""A net to an etcd cluster in which the answers are scripted: it takes the place of the connections of its client."""

import asyncio
import json

import httpx

from apportion.stores.etcd import wire


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
