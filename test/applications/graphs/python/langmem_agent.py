"""An agent that keeps memories in the store of the server, and a manager that extracts them after each answer."""

from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langmem import create_manage_memory_tool, create_memory_store_manager, create_search_memory_tool

model = ChatOpenAI(model="gpt-4o")
namespace = ("memories", "tour")
agent = create_react_agent(
    model,
    tools=[create_manage_memory_tool(namespace=namespace), create_search_memory_tool(namespace=namespace)],
)
manager = create_memory_store_manager(model, namespace=("managed", "tour"))


async def remember(state: MessagesState) -> None:
    await manager.ainvoke({"messages": state["messages"]})


builder = StateGraph(MessagesState)
builder.add_node("agent", agent)
builder.add_node("remember", remember)
builder.add_edge(START, "agent")
builder.add_edge("agent", "remember")
graph = builder.compile()
