"""How does a tool ask a model during its call?

    from haft import agent

    async def execute(params):
        verdict = await agent("explore").run("Is this safe? …", answer_schema={"type": "object", …})
        return verdict.value["why"]

haft runs a sub-agent of the session that made the call: under its limits and grants, with a transcript of its own. It
stops with the call.
"""


class Agent:
    """An agent of this profile; without a name, of the profile of the calling agent."""

    def __init__(self, profile=None, call=None, **options):
        self.profile, self.call, self.options = profile, call, options

    def run(self, task, **options):
        """In a coroutine: what the agent reports, awaited. A report has `text`, `value` and `agent`."""
        return in_executor(lambda: self.run_sync(task, **options))

    def run_sync(self, task, answer_schema=None, briefing=None, steps=None, seconds=None, tokens=None, system=None):
        """The same, and waits: for a tool that is not a coroutine."""
        given = dict(answer_schema=answer_schema, briefing=briefing, steps=steps, seconds=seconds, tokens=tokens)
        given.update(self.options)
        given = {name: it for name, it in given.items() if it is not None}
        call = self.call or current_call()
        return AgentReport(ask(call, "agent", wait=None, profile=self.profile, task=str(task), system=system, **given))

    # KohakuTerrarium's agents take a message in this way.
    async def chat(self, message, **options):
        return (await self.run(message, **options)).text

    def __call__(self, profile=None, **options):
        return Agent(profile, self.call, **options)

    def __repr__(self):
        return "agent(%r)" % self.profile


class AgentReport:
    """What an agent reported: its last text, and the JSON in it where a schema was asked for."""

    def __init__(self, said):
        self.text, self.value, self.agent = said["text"], said["value"], said["agent"]
        self.ended, self.steps, self.tokens, self.cost = said["ended"], said["steps"], said["tokens"], said["cost"]

    def __str__(self):
        return self.text

    def __repr__(self):
        return "AgentReport(agent=%r, ended=%r, text=%r)" % (self.agent, self.ended, self.text)


def current_call():
    """The call that runs here; without one, the oldest that runs in this process."""
    here = CURRENT.get()
    if here is not None and here.id in Serving.running:
        return here
    for call in list(Serving.running.values()):
        return call
    raise RuntimeError("an agent is asked during a call of a tool, and none runs")


async def in_executor(work):
    import asyncio
    from contextvars import copy_context

    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(None, lambda: context.run(work))


def haft_top():
    def agent(profile=None, **options):
        return Agent(profile, **options)

    return {"agent": agent, "AgentReport": AgentReport}
