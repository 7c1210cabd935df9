import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { acpVendors, type AcpVendorName } from '@conversation-operator/agent-server/acp/vendors';
import { hookMs, startMs } from '../support/agent-service.ts';
import { eventually } from '../support/eventually.ts';
import { partOf } from '../support/part.ts';
import { AcpAgents, memoryOf, names as allNames, type Way } from './support/acp-agents.ts';
import { ruleOf, rulesFiles } from './support/lifting-files.ts';
import { answerTo, appendTask, holdTask, lookalikes, task } from './support/mock-models.ts';

interface Figures {
  promptMs?: number;
  warmSandboxMs?: number;
  questionMs?: number;
  continues?: string;
  bridgeMiB?: number;
  agentMiB?: number;
}

const names = partOf(allNames);
let agents: AcpAgents;
const figures = new Map(names.map((name): [string, Figures] => [name, {}]));

beforeAll(async () => {
  agents = await AcpAgents.start();
}, hookMs);
// One sandbox at a time, so that the processes of a test are known.
afterEach(() => agents.removeAll(), startMs);
afterAll(() => agents.stopKeyless(), hookMs);
afterAll(() => {
  const seconds = (ms: number | undefined) =>
    ms === undefined ? '-' : `${(ms / 1000).toFixed(1)} s`;
  const rows = [...figures].map(
    ([name, { promptMs, warmSandboxMs, questionMs, continues, ...memory }]) =>
      [
        name,
        ...[promptMs, warmSandboxMs, questionMs].map(seconds),
        continues ?? '-',
        `${memory.bridgeMiB ?? '-'} MiB`,
        `${memory.agentMiB ?? '-'} MiB`,
      ].join(' | '),
  );
  process.stdout.write(
    [
      'name | POST to the prompt | the same from a warm sandbox | POST to the question about a tool call | continues by | memory of the bridge | of the agent',
      ...rows,
      '',
    ].join('\n'),
  );
});

/** The texts of the agent's messages, in order. */
const said = async (id: string): Promise<string> =>
  JSON.stringify(
    (await agents.events(id, '&kind=MessageEvent')).filter(({ source }) => source === 'agent'),
  );

/** How the last process has continued the session. */
async function continuation(id: string): Promise<unknown> {
  const events = await agents.events(id, '&kind=ConversationStateUpdateEvent');
  return events.findLast(({ key }) => key === 'acp_continued')?.['value'];
}

/** A conversation whose agent has asked about its only tool call. */
async function askingAbout(name: string, spec: string, file: string) {
  const begun = performance.now();
  const started = await agents.begin(`Work. ${appendTask(name, file)}`, {
    sandbox_spec_id: spec,
    confirmation_policy: 'AlwaysConfirm',
  });
  const approval = await agents.question(started.id);
  expect(await agents.fileNow(started.sandbox, file)).toBeUndefined();
  return { ...started, approval, questionMs: performance.now() - begun };
}

/** The tool call was executed once, and the model got the message once. */
async function expectOnce(name: string, sandbox: string, file: string): Promise<void> {
  expect(await agents.file(sandbox, file)).toBe('once\n');
  expect(agents.models.prompts(name)).toHaveLength(1);
}

/** Files of a repository whose rules are part of the prompts of a session that asks. */
const rulesOf: Readonly<Record<AcpVendorName, readonly string[]>> = {
  codex: ['AGENTS.md'],
  claude: ['CLAUDE.md'],
  qwen: [],
  opencode: ['AGENTS.md', 'CLAUDE.md'],
  gemini: [],
  kimi: ['AGENTS.md'],
};

const rotated = <T>(values: readonly T[], index: number): T => values[index % values.length] as T;
const ways: readonly Way[] = ['rest', 'kubectl', 'ui'];
const pausedWays: readonly Way[] = ['kubectl', 'rest'];

describe.each(names)('%s', (name) => {
  const index = allNames.indexOf(name);
  const way = rotated(ways, index);
  const pausedWay = rotated(pausedWays, index);
  const figure = figures.get(name) ?? {};

  it('answers a message about a repository, and one after a pause, with its context', async () => {
    const [first, second] = [`first-${name}`, `second-${name}`];
    const begun = performance.now();
    const { id, sandbox } = await agents.begin(`Begin. ${task(first)}`, {
      sandbox_spec_id: name,
      selected_repository: 'acme/shop',
    });
    const record = await agents.reaches(id, { execution_status: 'finished' });
    expect(record.agent_kind).toBe(name);
    expect(await said(id)).toContain(answerTo(first));
    expect(await agents.fileNow(sandbox, 'README.md')).toBe('A shop.\n');
    figure.promptMs = (agents.models.prompts(first)[0]?.at ?? NaN) - begun;
    const { bridge, children } = agents.process();
    figure.bridgeMiB = memoryOf([bridge]);
    figure.agentMiB = memoryOf(children);

    await agents.pause(id, sandbox);
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`);
    await agents.reaches(id, { sandbox_status: 'RUNNING' });
    await agents.say(id, `Continue. ${task(second)}`);
    await eventually(
      'the second answer',
      async () => (await said(id)).includes(answerTo(second)),
      startMs,
    );
    expect(agents.models.prompts(first)).toHaveLength(1);
    expect(agents.models.prompts(second)).toHaveLength(1);
    expect(agents.models.prompts(second)[0]?.body).toContain(task(first));
    figure.continues = String(await continuation(id));
    expect(figure.continues).toBe(acpVendors[name].continues);
  });

  it('sends its first prompt from a warm sandbox of a pool', async () => {
    const about = `spare-${name}`;
    await agents.keepWarmSandbox(name);
    const begun = performance.now();
    const { id, sandbox } = await agents.begin(`Begin. ${task(about)}`, { sandbox_spec_id: name });
    await agents.reaches(id, { execution_status: 'finished' });
    expect(await said(id)).toContain(answerTo(about));
    const prompts = agents.models.prompts(about);
    expect(prompts).toHaveLength(1);
    figure.warmSandboxMs = (prompts[0]?.at ?? NaN) - begun;
    expect(await agents.k('get', 'sandbox', sandbox, '-o', 'jsonpath={.spec.poolName}')).toBe(name);
  });

  it(`calls a tool once after an approval by ${way}`, async () => {
    const about = `approved-${name}`;
    const { id, sandbox, approval, questionMs } = await askingAbout(about, name, 'approved.txt');
    figure.questionMs = questionMs;
    await agents.answer(id, approval, 'approve', way);
    await agents.reaches(id, { execution_status: 'finished' });
    await expectOnce(about, sandbox, 'approved.txt');
  });

  it('asks although files of the repository allow its tools', async () => {
    const about = `hostile-${name}`;
    const { id, sandbox } = await agents.begin(`Work. ${appendTask(about, 'hostile.txt')}`, {
      sandbox_spec_id: name,
      selected_repository: 'acme/hostile',
      confirmation_policy: 'AlwaysConfirm',
    });
    await agents.question(id);
    expect(await agents.fileNow(sandbox, 'hostile.txt')).toBeUndefined();
    const ran = readdirSync(agents.ranFolder);
    for (const file of ran) rmSync(join(agents.ranFolder, file));
    // docs/agents.md says that plugins of the repository run in OpenCode.
    const known = name === 'opencode' ? ['ran-opencode-json-plugin', 'ran-opencode-plugin'] : [];
    expect([ran, agents.foreign.calls]).toEqual([known, 0]);
    const { body = '' } = agents.models.prompts(about)[0] ?? {};
    expect(rulesFiles.filter((file) => body.includes(ruleOf(file)))).toEqual(rulesOf[name]);
  });

  it('does not call a tool that was rejected', async () => {
    const about = `rejected-${name}`;
    const { id, sandbox, approval } = await askingAbout(about, name, 'rejected.txt');
    await agents.answer(id, approval, 'reject');
    await agents.reaches(id, { execution_status: 'finished' });
    expect(await agents.fileNow(sandbox, 'rejected.txt')).toBeUndefined();
    expect(agents.models.prompts(about)).toHaveLength(1);
  });

  it(`calls a tool once that is approved by ${pausedWay} while its sandbox is paused`, async () => {
    const about = `paused-${name}`;
    const { id, sandbox, approval } = await askingAbout(about, name, 'paused.txt');
    await agents.pause(id, sandbox);
    await agents.answer(id, approval, 'approve', pausedWay);
    await agents.reaches(id, { sandbox_status: 'RUNNING', execution_status: 'finished' });
    await expectOnce(about, sandbox, 'paused.txt');
  });

  it('calls a tool once that is approved after the death of the agent', async () => {
    const about = `orphan-${name}`;
    const { id, sandbox, approval } = await askingAbout(about, name, 'orphan.txt');
    await agents.killAgent();
    await agents.answer(id, approval, 'approve');
    await agents.reaches(id, { execution_status: 'finished' });
    await expectOnce(about, sandbox, 'orphan.txt');
  });

  it('asks again about a call that only resembles the approved one', async () => {
    const [file, stolen] = ['turned.txt', 'stolen.txt'];
    agents.models.turn(file, lookalikes(file, stolen));
    const { id, sandbox, approval } = await askingAbout(`turned-${name}`, name, file);
    await agents.killAgent();
    await agents.answer(id, approval, 'approve');
    const other = await eventually(
      'a question about the other call',
      async () => {
        const asked = (await agents.up.conversation(id)).pending_approval?.id;
        return asked !== approval && asked;
      },
      startMs,
    );
    await agents.answer(id, other, 'reject');
    await agents.reaches(id, { execution_status: 'finished' });
    for (const made of [file, stolen]) expect(await agents.fileNow(sandbox, made)).toBeUndefined();
  });

  it('calls a tool once that is approved after the loss of the pod', async () => {
    const about = `podless-${name}`;
    const { id, sandbox, approval } = await askingAbout(about, name, 'podless.txt');
    await agents.k('delete', 'pod', sandbox, '--grace-period=0', '--force');
    await agents.answer(id, approval, 'approve');
    await agents.reaches(id, { execution_status: 'finished' });
    await expectOnce(about, sandbox, 'podless.txt');
  });

  it('calls a tool once that is approved after the end of everything', async () => {
    const about = `powerless-${name}`;
    const { id, sandbox, approval } = await askingAbout(about, name, 'powerless.txt');
    await agents.kill();
    await agents.startAgain();
    await agents.answer(id, approval, 'approve');
    await agents.reaches(id, { sandbox_status: 'RUNNING', execution_status: 'finished' });
    await expectOnce(about, sandbox, 'powerless.txt');
  });

  it('answers once a message that comes during a turn', async () => {
    const [about, second] = [`interrupted-${name}`, `meanwhile-${name}`];
    const { id, sandbox, approval } = await askingAbout(about, name, 'interrupted.txt');
    await agents.say(id, `And then. ${task(second)}`);
    await agents.answer(id, approval, 'approve');
    await eventually(
      'the second answer',
      async () => (await said(id)).includes(answerTo(second)),
      startMs,
    );
    await agents.reaches(id, { execution_status: 'finished' });
    await expectOnce(about, sandbox, 'interrupted.txt');
    expect(agents.models.prompts(second)).toHaveLength(1);
  });

  it('ends a turn in which its sandbox is paused, and sends its prompt once', async () => {
    const about = `held-${name}`;
    const { id, sandbox } = await agents.begin(`Begin. ${holdTask(about)}`, {
      sandbox_spec_id: name,
    });
    await eventually('the prompt', () => agents.models.prompts(about).length === 1, startMs);
    await agents.pause(id, sandbox);
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`, { run: true });
    await agents.reaches(id, { sandbox_status: 'RUNNING', execution_status: 'finished' });
    expect(agents.models.prompts(about)).toHaveLength(1);
    expect(await said(id)).toContain(answerTo('nothing'));
  });

  it('calls a tool once that is approved after the death of the bridge', async () => {
    const about = `unbridged-${name}`;
    const { id, sandbox, approval } = await askingAbout(about, name, 'unbridged.txt');
    process.kill(agents.process().bridge, 'SIGKILL');
    await eventually(
      'another container',
      async () =>
        (await agents.k('get', 'pod', sandbox, '-o', 'jsonpath={..restartCount}')) === '1',
      startMs,
    );
    await agents.answer(id, approval, 'approve');
    await agents.reaches(id, { execution_status: 'finished' });
    await expectOnce(about, sandbox, 'unbridged.txt');
  });
});
