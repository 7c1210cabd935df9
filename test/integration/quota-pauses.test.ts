import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

let up: Installation;

beforeAll(async () => {
  up = await Installation.start();
});
afterAll(async () => {
  await up.stop();
});

const k = async (...args: string[]): Promise<string> => {
  const { code, stdout, stderr } = await kubectl(up.kubeconfig, args);
  if (code !== 0) throw new Error(stderr);
  return stdout;
};
const patch = (kind: string, name: string, spec: object) =>
  k('patch', kind, name, '--type', 'merge', '-p', JSON.stringify({ spec }));
const rest = async (sandbox: string, verb: 'pause' | 'resume') => {
  expect((await up.call('POST', `/api/v1/sandboxes/${sandbox}/${verb}`)).body).toEqual({
    success: true,
  });
};
// An agent that is interrupted does not run its block again, and continues with the next one.
const block = '```sh\nsleep 600\n```';
const work = `${block}\n${block}`;
const chat = '```sh\necho hello\n```';

/** A conversation of the template; resolves with its id once it is READY. */
async function started(text: string, spec = 'default'): Promise<string> {
  const { id } = await up.start(text, { sandbox_spec_id: spec });
  const task = await up.over(id);
  return z.string().parse(task.app_conversation_id);
}

const say = (id: string, text: string) =>
  up.call('POST', `/api/v1/app-conversations/${id}/send-message`, {
    role: 'user',
    content: [{ type: 'text', text }],
    run: true,
  });
const sandboxOf = (id: string): string => `sbx-${id}`;
const paused = (id: string, reason: string) =>
  up.reaches(id, { sandbox_status: 'PAUSED', sandbox_status_reason: reason });
const running = (id: string) => up.reaches(id, { sandbox_status: 'RUNNING' });
const isGone = (id: string) =>
  eventually(
    'its pod gone',
    async () => (await k('get', 'pod', sandboxOf(id), '--ignore-not-found', '-o', 'name')) === '',
  );

async function detailOf(id: string): Promise<string | null> {
  const { body } = await up.call('GET', `/api/v1/sandboxes?id=${sandboxOf(id)}`);
  return z.tuple([z.object({ status_detail: z.string().nullable() })]).parse(body)[0].status_detail;
}

/** "reason: message" of the Events of a conversation, once there is one of this reason. */
const eventOf = (id: string, reason: string): Promise<string> =>
  eventually(`an Event ${reason} of ${id}`, async () => {
    const selector = `involvedObject.kind=Conversation,involvedObject.name=${id},reason=${reason}`;
    const text = await k(
      'get',
      'events',
      '--field-selector',
      selector,
      '-o',
      'jsonpath={.items[-1:].message}',
    );
    return text === '' ? undefined : text;
  });

async function template(name: string, limits: object): Promise<void> {
  const { spec } = z
    .object({ spec: z.record(z.string(), z.unknown()) })
    .parse(JSON.parse(await k('get', 'sbt', 'default', '-o', 'json')));
  const metadata = { name };
  const text = JSON.stringify({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'SandboxTemplate',
    metadata,
    spec: { ...spec, ...limits },
  });
  expect((await kubectl(up.kubeconfig, ['apply', '-f', '-'], text)).stderr).toBe('');
}

const pauses: [
  string,
  (sandbox: string) => Promise<unknown>,
  (sandbox: string) => Promise<unknown>,
][] = [
  ['REST', (name) => rest(name, 'pause'), (name) => rest(name, 'resume')],
  [
    'kubectl scale',
    (name) => k('scale', 'sandbox', name, '--replicas=0'),
    (name) => k('scale', 'sandbox', name, '--replicas=1'),
  ],
  [
    'an edit',
    (name) => patch('sandbox', name, { replicas: 0 }),
    (name) => patch('sandbox', name, { replicas: 1 }),
  ],
];

describe('under a limit of one', () => {
  it.each(pauses)(
    'a pause and a resume by %s take no slot from a sandbox that works, before a message comes',
    async (_by, pause, resume) => {
      await patch('cq', 'default', { limit: 1 });
      const first = await started(work);
      await pause(sandboxOf(first));
      expect(await paused(first, 'user')).toMatchObject({ execution_status: 'paused' });
      expect(await detailOf(first)).toBe('Paused by its owner.');
      await isGone(first);
      const second = await started(work);
      // Over the limit: a bare resume pauses no sandbox that works.
      await resume(sandboxOf(first));
      await up.reaches(first, {
        sandbox_status: 'STARTING',
        sandbox_status_reason: 'waiting-for-idle-sandbox',
      });
      const limit = 'at most 1 per owner may be active at once.';
      expect(await detailOf(first)).toBe(
        `Waiting for room or for an idle sandbox: ${limit} A resume without a message pauses no agent that works; a message does.`,
      );
      expect(await up.conversation(second)).toMatchObject({
        sandbox_status: 'RUNNING',
        execution_status: 'running',
      });
      // A message makes room for its sandbox, and both conversations show that.
      expect((await say(first, 'Hello.')).status).toBe(202);
      expect(await paused(second, 'quota')).toMatchObject({ execution_status: 'paused' });
      expect(await running(first)).toMatchObject({ sandbox_status_reason: null });
      const text = `Paused to make room for conversation ${first} of the same owner; limit 1.`;
      expect(await detailOf(second)).toBe(text);
      expect(await eventOf(second, 'PausedByQuota')).toBe(text);
      expect(await eventOf(first, 'RoomMade')).toBe(
        `Conversation ${second} is paused to make room; limit 1.`,
      );
      // Room again: the one that the quota has paused comes back, the one that its owner has paused
      // does not.
      await pause(sandboxOf(first));
      await running(second);
      expect(await eventOf(second, 'ResumedByQuota')).toBe(
        'The sandbox resumes automatically: there is room again.',
      );
      await k('delete', 'conversation', second);
      await isGone(second);
      expect(await up.conversation(first)).toMatchObject({
        sandbox_status: 'PAUSED',
        sandbox_status_reason: 'user',
      });
      await k('delete', 'conversation', first);
    },
  );

  it('shows a newcomer the sandbox that it evicts, also before it has a sandbox of its own', async () => {
    await patch('cq', 'default', { limit: 1 });
    const first = await started(chat);
    const second = await started(chat);
    expect(await eventOf(second, 'RoomMade')).toBe(
      `Conversation ${first} is paused to make room; limit 1.`,
    );
    expect(await eventOf(second, 'WaitingForQuota')).toBe(
      'Waiting for room: at most 1 per owner may be active at once.',
    );
    await k('delete', 'conversation', first, second);
  });
});

it('pauses an idle sandbox for a bare resume, and for a resume that continues its run also one that works', async () => {
  await patch('cq', 'default', { limit: 2 });
  const [busy, looker] = [await started(work), await started(chat)];
  await rest(sandboxOf(looker), 'pause');
  await isGone(looker);
  const idle = await started(chat);
  await up.reaches(idle, { execution_status: 'finished' });
  // The one that works is older.
  await rest(sandboxOf(looker), 'resume');
  await paused(idle, 'quota');
  await running(looker);
  expect(await up.conversation(busy)).toMatchObject({
    sandbox_status: 'RUNNING',
    execution_status: 'running',
  });
  // No idle sandbox is left.
  await patch('cq', 'default', { limit: 1 });
  await paused(busy, 'quota');
  const interrupted = await started(work);
  await paused(looker, 'quota');
  await rest(sandboxOf(interrupted), 'pause');
  await isGone(interrupted);
  const other = await started(work);
  expect(
    (await up.call('POST', `/api/v1/sandboxes/${sandboxOf(interrupted)}/resume`, { run: true }))
      .status,
  ).toBe(200);
  await paused(other, 'quota');
  await up.reaches(interrupted, { sandbox_status: 'RUNNING', execution_status: 'running' });
  await k('delete', 'conversation', busy, looker, idle, interrupted, other);
});

it('pauses an idle sandbox, and lets it run again when a person asks for it', async () => {
  await patch('cq', 'default', { limit: 10 });
  await template('napping', { idleTimeout: '2s' });
  const [idle, busy] = await Promise.all([started(chat, 'napping'), started(work, 'napping')]);
  await paused(idle, 'idle');
  const text = 'Paused after 2s without work, the idleTimeout of its template.';
  expect(await detailOf(idle)).toBe(text);
  expect(await eventOf(idle, 'Idle')).toBe(text);
  expect(await up.conversation(busy)).toMatchObject({
    sandbox_status: 'RUNNING',
    execution_status: 'running',
  });
  await rest(sandboxOf(idle), 'resume');
  await running(idle);
  await paused(idle, 'idle');
  // Nor does room bring it back.
  await isGone(idle);
  expect(await up.conversation(idle)).toMatchObject({
    sandbox_status: 'PAUSED',
    sandbox_status_reason: 'idle',
  });
  await k('delete', 'conversation', idle, busy);
});

it('pauses a sandbox at the end of its maxActiveTime, and its run resumes when a person asks for it', async () => {
  await template('brief', { maxActiveTime: '3s' });
  const id = await started(work, 'brief');
  expect(await paused(id, 'max-active-time')).toMatchObject({ execution_status: 'paused' });
  const text = 'Paused after 3s of running, the maxActiveTime of its template.';
  expect(await detailOf(id)).toBe(text);
  expect(await eventOf(id, 'MaxActiveTime')).toBe(text);
  await isGone(id);
  await k('scale', 'sandbox', sandboxOf(id), '--replicas=0');
  await k('scale', 'sandbox', sandboxOf(id), '--replicas=1');
  await running(id);
  await paused(id, 'max-active-time');
  await k('delete', 'conversation', id);
});
