"""OAuth by langchain-auth, outside of a graph and in one. LANGSMITH_API_URL and LANGSMITH_API_KEY name the server."""

import asyncio
import os
import re

import httpx
from langchain_auth import Client
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from checks import check, refused, report

ISSUER = os.environ["OIDC_ISSUER"]
SCOPES = ["openid", "repo"]


async def consent(url):
    """The steps of a person in a browser."""
    async with httpx.AsyncClient(follow_redirects=True) as browser:
        page = await browser.get(url)
        while prompt := re.search(r'name="prompt" value="(\w+)"', page.text):
            action = page.url.join(re.search(r'action="([^"]+)"', page.text)[1])
            page = await browser.post(action, data={"prompt": prompt[1], "login": "ada", "password": "any"})
        check(page.status_code == 200 and "You can close this window" in page.text, "consent in a browser")


async def is_alive(token):
    async with httpx.AsyncClient() as http:
        return (await http.get(f"{ISSUER}/me", headers={"authorization": f"Bearer {token}"})).status_code == 200


async def providers(client):
    made = await client.create_oauth_provider(
        provider_id="python",
        name="Python",
        client_id=os.environ["OIDC_CLIENT"],
        client_secret="wrong",
        auth_url=f"{ISSUER}/auth?prompt=consent",
        token_url=f"{ISSUER}/token",
        uses_pkce=True,
    )
    check(made.provider_id == "python" and made.uses_pkce and made.code_challenge_method == "S256", "create_oauth_provider")
    changed = await client.update_oauth_provider("python", name="Py", client_secret=os.environ["OIDC_SECRET"])
    check(changed.name == "Py" and changed.id == made.id, "update_oauth_provider")
    check(await client.get_oauth_provider("python") == changed, "get_oauth_provider")
    check(await client.list_oauth_providers() == [changed], "list_oauth_providers")
    check(not (await client.check_token_exists("python")).has_token, "check_token_exists before")


async def outside_of_a_graph(client):
    asked = await client.authenticate("python", SCOPES, "ada")
    check(asked.status == "pending" and asked.url and asked.auth_id, "authenticate: pending")
    await refused(TimeoutError, client.wait_for_completion(asked.auth_id, timeout=1), "wait_for_completion: timeout")
    waiting = asyncio.create_task(client.wait_for_completion(asked.auth_id))
    await consent(asked.url)
    done = await waiting
    check(done.status == "completed" and await is_alive(done.token), "wait_for_completion")
    again = await client.authenticate("python", SCOPES, "ada")
    check(again.status == "completed" and again.token == done.token, "authenticate: completed")
    check((await client.authenticate("python", SCOPES, "bob")).status == "pending", "not for another user")
    check((await client.check_token_exists("python")).has_token, "check_token_exists")
    await refused(Exception, client.wait_for_completion("unknown", timeout=1), "wait_for_completion: not found")
    await refused(Exception, client.authenticate("unknown", SCOPES, "ada"), "an unknown provider")


async def in_a_graph(client):
    class State(TypedDict):
        token: str

    async def act(state):
        return {"token": (await client.authenticate("python", SCOPES, "eve")).token}

    graph = StateGraph(State).add_node(act).add_edge(START, "act").compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1", "assistant_id": "the-agent"}}
    paused = await graph.ainvoke({"token": ""}, config)
    asked = paused["__interrupt__"][0].value
    check(asked["provider"] == "python" and asked["scopes"] == SCOPES, "in a graph, authenticate interrupts")
    await consent(asked["auth_url"])
    ended = await graph.ainvoke(Command(resume=True), config)
    check(await is_alive(ended["token"]), "and gets the token after the resume")
    other = await client.authenticate("python", SCOPES, "eve", agent_id="another")
    check(other.status == "pending", "which belongs to that agent")


async def main():
    client = Client()
    await providers(client)
    await outside_of_a_graph(client)
    await in_a_graph(client)
    revoked = await client.revoke_tokens("python")
    check(revoked.provider_id == "python" and revoked.message, "revoke_tokens")
    check(not (await client.check_token_exists("python")).has_token, "no token is left")
    check((await client.delete_oauth_provider("python")).message, "delete_oauth_provider")
    check(await client.list_oauth_providers() == [], "no provider is left")
    await refused(Exception, Client(api_key="wrong").list_oauth_providers(), "a wrong key")
    report()


asyncio.run(main())
