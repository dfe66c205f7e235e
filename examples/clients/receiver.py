"""Receives callbacks with FastAPI: CALLBACK_SECRET=… uvicorn receiver:app"""

import os

from fastapi import FastAPI, Request, Response
from sortie_client import InvalidSignature, callbacks

app = FastAPI()
handled: set[str] = set()


@app.post("/callbacks")
async def receive(request: Request) -> Response:
    try:
        run = callbacks.verify(await request.body(), request.headers, os.environ["CALLBACK_SECRET"])
    except InvalidSignature:
        return Response(status_code=401)
    # A callback can arrive more than once. Keep the IDs in your database.
    if run.id not in handled:
        handled.add(run.id)
        print(run.id, run.status, run.output, flush=True)
    return Response(status_code=204)
