import { finish, marker, tool } from '../support/model-server.ts';
import { Agents, hookMs, modelKey } from './support/agents.ts';
import { processTexts } from './support/traces.ts';

let agents: Agents;

beforeAll(async () => {
  agents = await Agents.start();
}, hookMs);
afterAll(() => agents.stopKeyless(), hookMs);

interface Usage {
  readonly accumulated_token_usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
  };
}

describe('a task for the real agent', () => {
  it('is done with its shell, and is followed over REST', async () => {
    agents.model.script('task', tool('echo made > file.txt; cat file.txt'), finish);
    const { id, sandbox } = await agents.begin(`Make a file. ${marker('task')}`);
    await agents.reaches(id, { execution_status: 'finished' });
    expect(await agents.file(sandbox, 'file.txt')).toBe('made\n');

    expect(await agents.reaches(id, { title: 'A title' })).toMatchObject({
      agent_kind: 'openhands',
    });
    // Two steps, 10 and 2 tokens each. The title takes as many, which an agent on a busy machine
    // has been seen not to count.
    const { stats } = (await agents.agent(id, 'GET', '')) as {
      stats: { usage_to_metrics: Readonly<Record<string, Usage>> };
    };
    const usages = Object.values(stats.usage_to_metrics).map(
      ({ accumulated_token_usage: usage }) => usage,
    );
    const sum = (name: keyof Usage['accumulated_token_usage']) =>
      usages.reduce((total, usage) => total + usage[name], 0);
    const [prompt, completion] = [sum('prompt_tokens'), sum('completion_tokens')];
    expect([prompt, completion].join()).toMatch(/^(20,4|30,6)$/);
    const tokens = { prompt_tokens: prompt, completion_tokens: completion };
    await agents.reaches(id, { metrics: { accumulated_cost: 0, accumulated_token_usage: tokens } });
    const kinds = (await agents.events(id)).map(({ kind }) => kind);
    expect(kinds).toEqual(
      expect.arrayContaining([
        'SystemPromptEvent',
        'MessageEvent',
        'ActionEvent',
        'ObservationEvent',
      ]),
    );
    expect((await agents.agent(id, 'GET', '/events/search?limit=100')) as object).toMatchObject({
      items: await agents.events(id),
    });
    expect(await agents.agent(id, 'GET', '/agent_final_response')).toEqual({
      response: 'all done',
    });

    const [first, second] = agents.model.requests('task');
    expect(first).toMatchObject({ model: 'm', authorization: `Bearer ${modelKey}` });
    expect(second?.messages.at(-1)?.content).toContain('made');
    expect(agents.model.titles.length).toBeGreaterThan(0);
  });

  it('a conversation is listed by kubectl too', async () => {
    const [line = ''] = (await agents.k('get', 'conversations', '--no-headers')).trim().split('\n');
    expect(line).toMatch(/RUNNING\s+finished\s+READY/);
    expect(await agents.k('get', 'conversations', '-o', 'wide')).toContain('A title');
    const [pod = ''] = (await agents.k('get', 'pods', '-o', 'name')).split('\n');
    expect(await agents.k('logs', pod)).toContain('Application startup complete');
  });

  it('shows the key of the model nowhere: not in a resource, a log, a file of the sandbox, or the environment of its processes', async () => {
    expect(processTexts(agents).size).toBeGreaterThan(0);
    await agents.expectKeyless();
  });
});

describe('a run that its owner pauses in the middle of a command', () => {
  it('stays paused until a request to continue, and then finishes', async () => {
    agents.model.script(
      'pause',
      tool('echo before >> before.txt'),
      tool('echo begun > begun; sleep 60; touch ended'),
      tool('echo after >> after.txt'),
      finish,
    );
    const { id, sandbox } = await agents.begin(`Work. ${marker('pause')}`);
    await agents.file(sandbox, 'begun');
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    await agents.reaches(id, {
      sandbox_status: 'PAUSED',
      sandbox_status_reason: 'user',
      execution_status: 'paused',
    });
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`, { run: true });
    await agents.reaches(id, { sandbox_status: 'RUNNING' });
    await agents.reaches(id, { execution_status: 'finished' });
    expect([
      await agents.fileNow(sandbox, 'before.txt'),
      await agents.fileNow(sandbox, 'after.txt'),
    ]).toEqual(['before\n', 'after\n']);
    expect(await agents.fileNow(sandbox, 'ended')).toBeUndefined();
    expect(agents.model.requests('pause')[2]?.messages.at(-1)?.content).toContain(
      'interrupted before completion',
    );
    expect(agents.model.requests('pause')).toHaveLength(4);
  });
});
