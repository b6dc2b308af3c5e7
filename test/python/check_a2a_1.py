"""A2A by the official Python client of version 1.0: the graphs stream and ask of test/apps/basic."""

import asyncio
import os
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from checks import check, refused, report

URL = os.environ["WEFT_URL"]


def asked(part, **more):
    message = Message(role=Role.ROLE_USER, message_id=str(uuid4()), parts=[part], **more)
    return SendMessageRequest(message=message)


def data(value):
    return Part(data=ParseDict(value, Value()))


async def main():
    async with httpx.AsyncClient(timeout=60) as http:

        async def connect(graph, **config):
            card = await A2ACardResolver(http, f"{URL}/a2a/{graph}").get_agent_card()
            return ClientFactory(ClientConfig(httpx_client=http, **config)).create(card)

        async def events(client, request):
            return [event async for event in client.send_message(request)]

        client = await connect("stream", streaming=False)
        [answer] = await events(client, asked(Part(text="hello")))
        task = answer.task
        check(task.status.state == TaskState.TASK_STATE_COMPLETED, "1.0: SendMessage")
        check(task.artifacts[0].parts[0].text == "streamed", "1.0: its output")
        found = await client.get_task(GetTaskRequest(id=task.id, history_length=1))
        check(found.artifacts == task.artifacts and len(found.history) == 1, "1.0: GetTask")
        listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id, include_artifacts=True))
        check([one.id for one in listed.tasks] == [task.id] and listed.total_size == 1, "1.0: ListTasks")
        check(listed.tasks[0].artifacts == task.artifacts, "1.0: a list with artifacts")
        await refused(Exception, client.get_task(GetTaskRequest(id=str(uuid4()))), "1.0: an unknown task")
        await refused(Exception, client.cancel_task(CancelTaskRequest(id=task.id)), "1.0: a task that has ended is not canceled")

        client = await connect("stream", streaming=True)
        all = await events(client, asked(Part(text="hello")))
        kinds = [event.WhichOneof("payload") for event in all]
        check(kinds[0] == "task" and kinds[-2:] == ["artifact_update", "status_update"], "1.0: SendStreamingMessage")
        spoken = [part.text for event in all for part in event.status_update.status.message.parts]
        check("".join(spoken) == "streamed", "1.0: what the model says, as it says it")

        client = await connect("ask", streaming=True)
        status = (await events(client, asked(data({"question": "how?"}))))[-1].status_update
        check(status.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, "1.0: an interrupt")
        more = {"task_id": status.task_id, "context_id": status.context_id}
        *_, artifact, end = await events(client, asked(Part(text="so"), **more))
        check(end.status_update.task_id == status.task_id, "1.0: its answer")
        output = MessageToDict(artifact.artifact_update.artifact.parts[0].data)
        check(output["answer"] == {"given": "so"}, "1.0: the output is data")

        client = await connect("slow", streaming=False, polling=True)
        [answer] = await events(client, asked(data({"ms": 60000})))
        watcher = await connect("slow", streaming=True)
        stream = watcher.subscribe(SubscribeToTaskRequest(id=answer.task.id))
        check((await anext(stream)).task.id == answer.task.id, "1.0: SubscribeToTask")
        canceled = await client.cancel_task(CancelTaskRequest(id=answer.task.id))
        check(canceled.status.state == TaskState.TASK_STATE_CANCELED, "1.0: CancelTask")
        last = [event async for event in stream][-1]
        check(last.status_update.status.state == TaskState.TASK_STATE_CANCELED, "1.0: the end of the subscription")
    report()


asyncio.run(main())
