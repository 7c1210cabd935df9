import { SandboxKeys } from '../../../src/agent/keys.ts';
import { modelRelayAccessOf } from '../../../src/agent/model-relay.ts';
import { startStatuses } from '../../../src/resources/conversation-status.ts';
import { keySeedOf } from '../../../src/resources/sandbox.ts';
import { noon } from '../../support/builders.ts';
import { apiNames, askModel, refusalIn, type Access } from '../../support/models/agent-call.ts';
import { modelKey, RelayScene } from '../../support/models/relay-scene.ts';

let scene: RelayScene;
type Settled = ReturnType<RelayScene['conversation']>;
let alice: Settled;
let bob: Settled;
beforeEach(async () => {
  scene = await RelayScene.start();
  alice = scene.conversation(1);
  bob = scene.conversation(2, { owner: 'bob' });
});
afterEach(() => scene[Symbol.asyncDispose]());

/** The address of one conversation and the token of another one. */
const mixed = (address: Access, token: Access): Access => ({
  baseUrl: address.baseUrl,
  token: token.token,
});
const change = (spec: object, status: object = {}, metadata: object = {}): void =>
  scene.conversations.set({
    ...alice.conversation,
    metadata: { ...alice.conversation.metadata, ...metadata },
    spec: { ...alice.conversation.spec, ...spec },
    status: { ...alice.conversation.status, ...status },
  });
const renamed = (access: Settled, part: string, to: string): Access => ({
  baseUrl: access.baseUrl.replace(part, to),
  token: access.token,
});

const refusals: readonly [what: string, status: number, access: () => Access | Promise<Access>][] =
  [
    ["another owner's token", 401, () => mixed(alice, bob)],
    ["one's own token at another owner's address", 401, () => mixed(bob, alice)],
    [
      'a token for another conversation of the same sandbox',
      401,
      () => {
        const other = { metadata: { ...alice.conversation.metadata, name: 'f'.repeat(32) } };
        scene.conversations.set({ ...alice.conversation, ...other });
        return mixed(alice, modelRelayAccessOf({ ...alice, conversation: other }, scene));
      },
    ],
    [
      'a token for a conversation of another sandbox',
      401,
      () => modelRelayAccessOf({ sandbox: alice.sandbox, conversation: bob.conversation }, scene),
    ],
    [
      'a sandbox that does not exist',
      401,
      () => renamed(alice, alice.sandbox.metadata.name, 'none'),
    ],
    [
      'other tokens of the same sandbox',
      401,
      () => ({ baseUrl: alice.baseUrl, token: scene.keys.sessionKey(keySeedOf(alice.sandbox)) }),
    ],
    [
      'a token from before a handover of the sandbox',
      401,
      () => {
        const { spec } = alice.sandbox;
        scene.sandboxes.set({ ...alice.sandbox, spec: { ...spec, handovers: 1 } });
        return alice;
      },
    ],
    [
      'the token of a sandbox that was made again under its name',
      401,
      () => {
        const metadata = { ...alice.sandbox.metadata, uid: 'other' };
        scene.sandboxes.set({ ...alice.sandbox, metadata });
        return alice;
      },
    ],
    [
      'the token of a paused sandbox',
      401,
      () => {
        scene.sandboxes.set({ ...alice.sandbox, spec: { ...alice.sandbox.spec, replicas: 0 } });
        return alice;
      },
    ],
    [
      'the token of a sandbox that is being deleted',
      401,
      () => {
        const metadata = { ...alice.sandbox.metadata, deletionTimestamp: noon };
        scene.sandboxes.set({ ...alice.sandbox, metadata });
        return alice;
      },
    ],
    [
      'the token of a conversation that failed',
      401,
      () => {
        change({}, { start: { status: 'ERROR' } });
        return alice;
      },
    ],
    [
      'the token of a conversation that was deleted',
      401,
      () => {
        scene.conversations.delete('default', alice.conversation.metadata.name);
        return alice;
      },
    ],
    [
      'the token of a conversation that is being deleted',
      401,
      () => {
        change({}, {}, { deletionTimestamp: noon });
        return alice;
      },
    ],
    [
      'the token of a conversation whose sandbox was replaced',
      401,
      () => {
        change({}, { sandboxUID: 'other' });
        return alice;
      },
    ],
    [
      'a template without the relay',
      403,
      () => {
        scene.template({ models: { relay: false } });
        return alice;
      },
    ],
    [
      'a template that is gone',
      403,
      () => {
        scene.templates.delete('default', 'default');
        return alice;
      },
    ],
    [
      'a credential that is missing',
      403,
      () => {
        scene.credentials.clear();
        return alice;
      },
    ],
  ];

describe.each(apiNames)('a call of %s', (api) => {
  it.each(refusals)('is refused with %s', async (_what, status, access) => {
    const got = await askModel(await access(), api);
    expect(got.status).toBe(status);
    refusalIn(api, got);
    expect(got.text).not.toContain(modelKey);
    expect(scene.provider.calls).toEqual([]);
  });

  it.each<[string, object]>([
    ['other', { model: 'openai/m', allowedModels: ['openai/m'] }],
    ['m2', { model: 'openai/m', allowedModels: ['openai/m'] }],
    ['M', { model: 'openai/m', allowedModels: ['openai/m'] }],
    ['openai/openai/m', { model: 'openai/m', allowedModels: ['openai/m'] }],
    ['m@evil.example', { model: 'openai/m' }],
  ])('is refused for the model %s under %j', async (model, agent) => {
    scene.template({
      agent: {
        port: 8000,
        workingDir: '/',
        baseUrl: `${scene.provider.url}/v1`,
        credential: 'platform',
        ...agent,
      },
    });
    const got =
      api === 'gemini'
        ? await askModel(alice, api, { path: `v1beta/models/${model}:generateContent` })
        : await askModel(alice, api, { fields: { model } });
    expect(got.status).toBe(403);
    expect(refusalIn(api, got)).toContain(`does not allow the model ${model}`);
    expect(scene.provider.calls).toEqual([]);
  });
});

it('takes the model of the conversation, and another one that the template allows', async () => {
  const agent = {
    port: 8000,
    workingDir: '/',
    model: 'openai/m',
    baseUrl: `${scene.provider.url}/v1`,
    credential: 'platform',
    allowedModels: ['openai/m', 'openai/n*'],
  };
  scene.template({ agent });
  for (const model of ['m', 'openai/m', 'n1', 'openai/n1'])
    expect([model, (await askModel(alice, 'chat', { fields: { model } })).status]).toEqual([
      model,
      200,
    ]);
});

it.each(startStatuses.filter((status) => status !== 'ERROR'))(
  'serves a conversation whose start is %s',
  async (status) => {
    change({}, { start: { status } });
    expect(await askModel(alice, 'chat')).toMatchObject({ status: 200 });
  },
);

it('serves a conversation that the cache shows a moment later', async () => {
  scene.conversations.delete('default', alice.conversation.metadata.name);
  const answer = askModel(alice, 'chat');
  setTimeout(() => scene.conversations.set(alice.conversation), 60);
  expect(await answer).toMatchObject({ status: 200 });
});

it('sends the key that the file has at the time of each call', async () => {
  for (const key of ['sk-first', 'sk-second']) {
    scene.credentials.set('platform', key);
    expect(await askModel(alice, 'chat')).toMatchObject({ status: 200 });
  }
  expect(scene.provider.calls.map(({ headers }) => headers.authorization)).toEqual([
    'Bearer sk-first',
    'Bearer sk-second',
  ]);
});

it('sends no credential where the template names none', async () => {
  scene.template({
    agent: { port: 8000, workingDir: '/', model: 'openai/m', baseUrl: `${scene.provider.url}/v1` },
  });
  expect(await askModel(alice, 'chat')).toMatchObject({ status: 200 });
  expect(scene.provider.calls[0]?.headers).not.toHaveProperty('authorization');
});

it('takes tokens under every master key that it has, and none under others', async () => {
  const [old, current] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  await using replica = await RelayScene.start({ keys: new SandboxKeys([current, old]) });
  const { conversation, sandbox } = replica.conversation();
  const under = (key: Buffer) =>
    askModel(
      modelRelayAccessOf(
        { conversation, sandbox },
        { url: replica.url, keys: new SandboxKeys([key]) },
      ),
      'chat',
    );
  expect((await under(old)).status).toBe(200);
  expect((await under(current)).status).toBe(200);
  expect((await under(Buffer.alloc(32, 3))).status).toBe(401);
});
