import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { handoverList, handoverSchema } from '../../src/gateway/handovers/present.ts';
import { eventually } from '../support/eventually.ts';
import { Installation, saying } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { RestUser } from '../support/rest-user.ts';

let up: Installation;
let bob: RestUser;
let reader: RestUser;
let carol: RestUser;

const folder = mkdtempSync(join(tmpdir(), 'handover-'));
const auditPath = join(folder, 'audit.jsonl');
/** The lines of the audit log about a handover. */
const linesOf = (handover: string): readonly object[] =>
  readFileSync(auditPath, 'utf8')
    .split('\n')
    .filter((line) => line.includes(handover) && line.includes('"message":"Handover'))
    .map((line) => JSON.parse(line) as object);

const keySchema = z.looseObject({ key: z.string() });
const eventPage = z.object({ items: z.array(z.looseObject({ kind: z.string() })) });
const conversations = '/api/v1/app-conversations';

async function userOf(owner: string, more: object = {}): Promise<RestUser> {
  const { body } = await up.call('POST', '/api/keys', { name: `of ${owner}`, owner, ...more });
  return new RestUser({ url: up.url, key: keySchema.parse(body).key });
}

beforeAll(async () => {
  up = await Installation.start({ env: { AUDIT_FILE: auditPath } });
  [bob, reader, carol] = [
    await userOf('bob'),
    await userOf('bob', { scopes: ['read'] }),
    await userOf('carol'),
  ];
  await up.call('POST', '/api/v1/secrets', { name: 'TOKEN', value: 'token-of-local' });
  await bob.call('POST', '/api/v1/secrets', { name: 'TOKEN', value: 'token-of-bob' });
});
afterAll(async () => {
  await up.stop();
  rmSync(folder, { recursive: true });
});

const k = async (...args: string[]): Promise<string> => (await kubectl(up.kubeconfig, args)).stdout;

/** A conversation of the first owner that has done its first task. */
async function begun(more: object = {}) {
  const { id: task } = await up.start(
    'Check:\n```sh\ntest "$TOKEN" = token-of-local && test "$START" = start-value && echo of-the-first > first.txt\n```',
    { secrets: { START: 'start-value' }, ...more },
  );
  const { app_conversation_id: id, sandbox_id: sandbox } = await up.over(task);
  if (id === null || sandbox === null) throw new Error('the start has failed');
  const record = await up.reaches(id, { execution_status: 'finished' });
  return { id, sandbox, sessionKey: record.session_api_key ?? '' };
}

const offer = async (id: string, to = 'bob') => {
  const { status, body } = await up.call('POST', `${conversations}/${id}/handover`, { to });
  expect(status).toBe(202);
  return handoverSchema.parse(body);
};
const offersOf = async (user: RestUser) =>
  handoverList.parse((await user.call('GET', '/api/v1/handovers')).body);
const statusOf = async (user: RestUser, method: string, path: string, body?: object) =>
  (await user.call(method, path, body)).status;
const ends = (user: RestUser, id: string) =>
  eventually('the end of the handover', async () =>
    (await offersOf(user)).find((one) => one.id === id && one.finished_at !== null),
  );

it('moves a conversation with its sandbox, volume and archive to the owner who accepts', async () => {
  const { id, sandbox, sessionKey } = await begun();
  const handover = await offer(id);
  expect(handover).toMatchObject({
    status: 'offered',
    from: 'local',
    to: 'bob',
    conversation: {
      sandbox_status: 'RUNNING',
      sandbox_spec_id: 'default',
      secrets_of_start: ['START'],
      waiting_messages: 0,
    },
  });
  expect(await offer(id)).toMatchObject({ id: handover.id });
  expect((await offersOf(bob)).map((one) => one.conversation?.title)).toEqual([
    handover.conversation?.title,
  ]);
  expect(await offersOf(carol)).toEqual([]);
  const accept = `/api/v1/handovers/${handover.id}/accept`;
  expect(await statusOf(carol, 'POST', accept)).toBe(404);
  expect(await statusOf(up, 'POST', accept)).toBe(404);
  expect(await statusOf(reader, 'POST', accept)).toBe(403);
  expect(await statusOf(bob, 'GET', `${conversations}/${id}/timeline`)).toBe(404);
  expect(await statusOf(bob, 'POST', accept)).toBe(202);
  expect(await statusOf(bob, 'POST', accept)).toBe(202);
  expect(await ends(bob, handover.id)).toMatchObject({ status: 'done', answered_by: 'bob' });
  const offered = { message: 'HandoverOffered', owner: 'local', to: 'bob', conversation: id };
  expect(linesOf(handover.id)).toMatchObject([
    offered,
    offered,
    { message: 'HandoverAnswered', owner: 'bob', from: 'local', to: 'bob', answer: 'Accepted' },
    { message: 'HandoverDone', by: 'operator', from: 'local', to: 'bob', conversation: id },
  ]);

  // The first owner reads and changes nothing any more.
  expect((await up.call('GET', `${conversations}?ids=${id}`)).body).toEqual([]);
  expect((await up.call('GET', `/api/v1/sandboxes?id=${sandbox}`)).body).toEqual([null]);
  const [gone] = await offersOf(up);
  expect(gone).toMatchObject({ id: handover.id, status: 'done', conversation: null });
  for (const [method, path, body] of [
    ['GET', `/api/v1/conversation/${id}/events/search`],
    ['GET', `${conversations}/${id}/download`],
    ['GET', `${conversations}/${id}/approvals`],
    ['GET', `${conversations}/${id}/timeline`],
    ['POST', `${conversations}/${id}/send-message`, saying('Hello').initial_message],
    ['PATCH', `${conversations}/${id}`, { title: 'mine' }],
    ['DELETE', `${conversations}/${id}`],
    ['POST', `${conversations}/${id}/handover`, { to: 'carol' }],
    ['POST', `/api/v1/sandboxes/${sandbox}/resume`],
    ['POST', `/api/v1/sandboxes/${sandbox}/rotate-key`],
    ['DELETE', `/api/v1/sandboxes/${sandbox}`],
  ] as const)
    expect([path, await statusOf(up, method, path, body)]).toEqual([path, 404]);
  const again = { ...saying('Another'), conversation_id: id };
  expect(await statusOf(up, 'POST', conversations, again)).toBe(409);

  // The new owner has all of it, paused.
  const record = await bob.conversation(id);
  expect(record).toMatchObject({ sandbox_status: 'PAUSED', created_by_user_id: 'bob' });
  const events = await bob.call('GET', `/api/v1/conversation/${id}/events/search`);
  expect(eventPage.parse(events.body).items.length).toBeGreaterThan(1);
  expect(JSON.parse(await k('get', 'conversation', id, '-o', 'json'))).toMatchObject({
    spec: expect.not.objectContaining({ secrets: expect.anything() as unknown }) as unknown,
  });
  expect(await k('get', 'pvc', sandbox, '-o', 'jsonpath={.metadata.annotations}')).toContain(
    '"conversation-operator.dev/owner":"bob"',
  );

  const { status } = await bob.call('POST', `${conversations}/${id}/send-message`, {
    role: 'user',
    run: true,
    content: [
      {
        type: 'text',
        text: '```sh\ntest "$TOKEN" = token-of-bob && test -z "$START" && cat first.txt && echo of-the-second > second.txt\n```',
      },
    ],
  });
  expect(status).toBe(202);
  const after = await bob.reaches(id, { sandbox_status: 'RUNNING', execution_status: 'finished' });
  const folder = encodeURIComponent(after.workspace?.working_dir ?? '');
  await eventually('the file of the new owner', async () => {
    const { body } = await bob.call(
      'GET',
      `${conversations}/${id}/file?file_path=${folder}/second.txt`,
    );
    return body === 'of-the-second\n';
  });
  // The session key of the first owner opens nothing.
  expect(after.session_api_key).not.toBe(sessionKey);
  const agent = `${up.url}/sandboxes/${sandbox}/AGENT_SERVER/api/conversations/count`;
  const withKey = (key: string) => fetch(agent, { headers: { 'X-Session-API-Key': key } });
  expect((await withKey(sessionKey)).status).toBe(401);
  expect((await withKey(after.session_api_key ?? '')).status).toBe(200);
}, 240_000);

it('moves no message that waits, and opens no link again after a way back', async () => {
  const { id, sandbox } = await begun();
  const { body } = await up.call('POST', `${conversations}/${id}/shares`, {
    subject: { kind: 'link' },
  });
  const { url } = z.looseObject({ url: z.string() }).parse(body);
  const shared = url.replace('/shared/', '/api/v1/shared/');
  const linkStatus = async () => (await fetch(`${shared}/conversation`)).status;
  expect(await linkStatus()).toBe(200);
  expect(await statusOf(up, 'POST', `/api/v1/sandboxes/${sandbox}/pause`)).toBe(200);
  await up.reaches(id, { sandbox_status: 'PAUSED' });
  const content = [{ type: 'text', text: '```sh\necho $TOKEN | rev > sent.txt\n```' }];
  const message = { spec: { messages: [{ number: 1, id: 'late', content }] } };
  await k('patch', 'conversation', id, '--type', 'merge', '-p', JSON.stringify(message));
  const messages = () => k('get', 'conversation', id, '-o', 'jsonpath={.spec.messages}');
  const move = async (from: RestUser, to: RestUser, name: string) => {
    const path = `${conversations}/${id}/handover`;
    const { id: offered, conversation } = handoverSchema.parse(
      (await from.call('POST', path, { to: name })).body,
    );
    expect(await statusOf(to, 'POST', `/api/v1/handovers/${offered}/accept`)).toBe(202);
    expect(await ends(to, offered)).toMatchObject({ status: 'done' });
    return conversation;
  };

  expect(await messages()).toContain('late');
  expect(await move(up, bob, 'bob')).toMatchObject({ waiting_messages: 1, instructions: null });
  expect(await messages()).toBe('');
  expect(await linkStatus()).toBe(404);
  await move(bob, up, 'local');
  expect(await up.conversation(id)).toMatchObject({ sandbox_status: 'PAUSED' });
  expect(await linkStatus()).toBe(404);
  expect((await up.call('GET', `${conversations}/${id}/shares`)).body).toEqual([]);
}, 240_000);

it('leaves everything where it is when the offer is refused or withdrawn', async () => {
  const { id } = await begun();
  const first = await offer(id);
  expect(await statusOf(up, 'POST', `${conversations}/${id}/handover`, { to: 'carol' })).toBe(409);
  expect(await statusOf(bob, 'POST', `/api/v1/handovers/${first.id}/refuse`)).toBe(200);
  expect(await ends(up, first.id)).toMatchObject({
    status: 'refused',
    reason: 'refused-by-owner',
    conversation: { sandbox_status: 'RUNNING' },
  });
  expect((await offersOf(bob)).find((one) => one.id === first.id)?.conversation).toBeNull();
  expect(await statusOf(bob, 'POST', `/api/v1/handovers/${first.id}/accept`)).toBe(409);
  const second = await offer(id);
  expect(await statusOf(bob, 'DELETE', `/api/v1/handovers/${second.id}`)).toBe(404);
  expect(await statusOf(up, 'DELETE', `/api/v1/handovers/${second.id}`)).toBe(200);
  expect(await ends(up, second.id)).toMatchObject({ status: 'refused', reason: 'withdrawn' });
  // The line follows the write of the status.
  await eventually('the line of the end', () => Promise.resolve(linesOf(second.id).length > 2));
  expect(linesOf(second.id)).toMatchObject([
    { message: 'HandoverOffered', owner: 'local' },
    { message: 'HandoverAnswered', owner: 'local', answer: 'Withdrawn' },
    { message: 'HandoverRefused', by: 'operator', from: 'local', reason: 'Withdrawn' },
  ]);
  expect(await up.conversation(id)).toMatchObject({ sandbox_status: 'RUNNING' });
  const third = await offer(id);
  await up.call('DELETE', `${conversations}/${id}`);
  expect(await ends(up, third.id)).toMatchObject({ reason: 'conversation-gone' });
}, 240_000);

it('is refused for a sandbox of several conversations, and beyond the quota of the new owner', async () => {
  const { id, sandbox } = await begun();
  const { id: task } = await up.start('Nothing to do.', { sandbox_id: sandbox });
  const { app_conversation_id: joined } = await up.over(task);
  const shared = await up.call('POST', `${conversations}/${id}/handover`, { to: 'bob' });
  expect(shared).toMatchObject({ status: 409, body: { code: 'wrong-state' } });
  expect(JSON.stringify(shared.body)).toContain(joined ?? '');
  await up.call('DELETE', `${conversations}/${joined ?? ''}`);
  const alone = () => up.call('POST', `${conversations}/${id}/handover`, { to: 'carol' });
  await eventually(
    'the sandbox to be of one conversation',
    async () =>
      (await k('get', 'sandbox', sandbox, '-o', 'jsonpath={.metadata.ownerReferences[*].name}')) ===
      id,
  );
  const handover = handoverSchema.parse((await alone()).body);
  const quota = {
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'ConversationQuota',
    metadata: { name: 'of-carol' },
    spec: { scope: 'Owner', owner: 'carol', limit: 5, maxSandboxes: 0 },
  };
  await kubectl(up.kubeconfig, ['apply', '-f', '-'], JSON.stringify(quota));
  const refused = await eventually('the refusal', async () => {
    const answer = await carol.call('POST', `/api/v1/handovers/${handover.id}/accept`);
    return answer.status === 429 && answer;
  });
  expect(refused.body).toMatchObject({ code: 'sandbox-limit-exceeded', limit: 0, current: 0 });
  // The operator refuses an acceptance that no gateway has checked.
  await k(
    'patch',
    'handover',
    handover.id,
    '--type=merge',
    '-p',
    JSON.stringify({
      spec: { answer: { value: 'Accepted', by: 'carol', time: '2026-01-01T00:00:00Z' } },
    }),
  );
  expect(await ends(up, handover.id)).toMatchObject({ reason: 'quota-exceeded' });
  expect(await up.conversation(id)).toMatchObject({ sandbox_status: 'RUNNING' });
}, 240_000);
