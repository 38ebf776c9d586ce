"""Clients: scripts that talk to a running system through its gateway.

    async with rt.connect("http://127.0.0.1:8420", token=token) as client:
        print(await client.ref("/user/shop").ask(Price("tea")))

`retinue.connect` is for trio, `retinue.aio.connect` for asyncio, `retinue.sync.connect` for plain scripts. What is no input or output stands once: what is sent
(`exchange`), what its answer means (`answers`), streams of events (`events`). Two faces carry it out: `asynchronous` (trio and asyncio alike) and `blocking`.
"""
