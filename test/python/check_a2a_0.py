"""A2A by the official Python client of version 0.3: the graphs stream and ask of test/apps/basic."""

import asyncio
import os
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import DataPart, Message, Part, Role, TaskIdParams, TaskQueryParams, TextPart

from checks import check, refused, report

URL = os.environ["WEFT_URL"]


def message(part, **more):
    return Message(role=Role.user, message_id=str(uuid4()), parts=[Part(root=part)], **more)


def text_of(artifacts):
    return artifacts[0].parts[0].root.text


async def main():
    async with httpx.AsyncClient(timeout=60) as http:

        async def connect(graph, streaming):
            card = await A2ACardResolver(http, f"{URL}/a2a/{graph}").get_agent_card()
            return ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)

        async def last(client, asked):
            return [event async for event in client.send_message(asked)][-1]

        client = await connect("stream", False)
        task, _ = await last(client, message(TextPart(text="hello")))
        check(task.status.state == "completed" and text_of(task.artifacts) == "streamed", "0.3: message/send")
        found = await client.get_task(TaskQueryParams(id=task.id, history_length=1))
        check(text_of(found.artifacts) == "streamed" and len(found.history) == 1, "0.3: tasks/get")
        await refused(Exception, client.get_task(TaskQueryParams(id=str(uuid4()))), "0.3: an unknown task")
        await refused(Exception, client.cancel_task(TaskIdParams(id=task.id)), "0.3: a task that has ended is not canceled")

        client = await connect("stream", True)
        task, update = await last(client, message(TextPart(text="hello")))
        check(update.final and text_of(task.artifacts) == "streamed", "0.3: message/stream")

        client = await connect("ask", True)
        task, update = await last(client, message(DataPart(data={"question": "how?"})))
        check(update.status.state == "input-required", "0.3: an interrupt")
        check(update.status.message.parts[0].root.data == {"question": "how?"}, "0.3: its question")
        more = {"task_id": task.id, "context_id": task.context_id}
        done, update = await last(client, message(TextPart(text="so"), **more))
        check(update.status.state == "completed" and done.id == task.id, "0.3: its answer")
        check(done.artifacts[0].parts[0].root.data["answer"] == {"given": "so"}, "0.3: the output is data")

        client = await connect("slow", False)
        config = ClientConfig(httpx_client=http, streaming=False, polling=True)
        card = await A2ACardResolver(http, f"{URL}/a2a/slow").get_agent_card()
        client = ClientFactory(config).create(card)
        task, _ = await last(client, message(DataPart(data={"ms": 60000})))
        check(task.status.state in ("submitted", "working"), "0.3: an answer that does not wait")
        canceled = await client.cancel_task(TaskIdParams(id=task.id))
        check(canceled.status.state == "canceled", "0.3: tasks/cancel")
    report()


asyncio.run(main())
