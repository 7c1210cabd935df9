import type { Conversation, ConversationSpec } from '../../../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../../../src/resources/conversation-status.ts';
import {
  SandboxReason,
  type Sandbox,
  type SandboxState,
} from '../../../../src/resources/sandbox.ts';
import { apiVersion } from '../../../../src/resources/group.ts';
import { startTaskIdOf } from '../../../../src/resources/ids.ts';
import { SessionKeys } from '../../../../src/gateway/auth/session-keys.ts';
import {
  conversationSchema,
  presentConversation,
} from '../../../../src/gateway/presenters/conversation.ts';
import { exposedBy, presentSandbox } from '../../../../src/gateway/presenters/sandbox.ts';
import { nothingExposed } from '../../../support/gateway/nothing-exposed.ts';
import { startTaskRecord, transitionsOf } from '../../../../src/gateway/presenters/start-task.ts';
import { wireTime } from '../../../../src/gateway/presenters/schemas.ts';
import { startTextsOf } from '../../../../src/gateway/lookup/start-texts.ts';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { firstWords } from '../../../../src/resources/plain-text.ts';
import { silentLogger } from '@conversation-operator/base/logger';

const id = '019aa6a65c4d7b1e8f1f2f7f4f3a2b10';
const at = (second: number) => `2026-03-01T12:00:0${second}.123Z`;

const metadata = (name: string) => ({
  name,
  namespace: 'agents',
  uid: `uid-of-${name}`,
  resourceVersion: '1',
  generation: 1,
  creationTimestamp: '2026-03-01T12:00:00Z',
});

const aConversation = (
  status?: ConversationStatus,
  spec: Partial<ConversationSpec> = {},
): Conversation => ({
  apiVersion,
  kind: 'Conversation',
  metadata: metadata(id),
  spec: {
    owner: 'alice',
    templateName: 'default',
    initialMessage: {
      role: 'user',
      content: [{ type: 'text', text: 'Fix the login page, please.' }],
      run: true,
    },
    ...spec,
  },
  ...(status === undefined ? {} : { status }),
});

const aSandbox = (
  status?: SandboxState,
  more: { replicas?: 0 | 1; owner?: string; deleting?: boolean } = {},
): Sandbox => ({
  apiVersion,
  kind: 'Sandbox',
  metadata: {
    ...metadata('sbx-1'),
    ...(more.deleting === true ? { deletionTimestamp: at(9) } : {}),
  },
  spec: { owner: more.owner ?? 'alice', templateName: 'default', replicas: more.replicas ?? 1 },
  ...(status === undefined ? {} : { status }),
});

const is = (type: string, status: 'True' | 'False', reason: string) => ({
  type,
  status,
  reason,
  message: `${reason}.`,
  lastTransitionTime: at(0),
});
const admitted = is('Admitted', 'True', 'Admitted');
const running: SandboxState = {
  conditions: [admitted, is('Ready', 'True', 'Running')],
  agentPort: 8123,
};

const ready: ConversationStatus = {
  sandboxName: 'sbx-1',
  start: { status: 'READY', transitions: [{ status: 'READY', time: at(4) }] },
};

const reader = { keyUid: 'uid-of-the-key', opensAgents: true, disclosed: () => undefined };
const sessionKeysOf = (keyOf: (uid: string) => string) =>
  new SessionKeys({
    keys: {
      knows: () => true,
      sessionKey: () => 'of the agent',
      clientKey: (uid, { apiKeyUid, generation }) => `${keyOf(uid)} ${generation} for ${apiKeyUid}`,
    },
    ring: { byReference: () => undefined },
    logger: silentLogger,
  });
const record = (conversation: Conversation, sandbox?: Sandbox, exposure = nothingExposed) =>
  presentConversation(
    { conversation: cachedConversation(conversation), sandbox, parent: undefined, children: [] },
    exposure,
    reader,
  );

const taskOf = (conversation: Conversation) =>
  startTaskRecord(cachedConversation(conversation), startTextsOf(conversation), undefined);

describe('the sandbox status of a conversation is', () => {
  it.each<[string, ConversationStatus | undefined, Sandbox | undefined, string, string | null]>([
    ['STARTING before any controller has seen it', undefined, undefined, 'STARTING', 'starting'],
    [
      'STARTING while its start has not made one',
      { start: { status: 'WORKING', transitions: [] } },
      undefined,
      'STARTING',
      'starting',
    ],
    [
      'STARTING when the cache of sandboxes is behind',
      { sandboxName: 'sbx-1', start: { status: 'WAITING_FOR_SANDBOX', transitions: [] } },
      undefined,
      'STARTING',
      'starting',
    ],
    [
      'STARTING while it waits for the quota',
      ready,
      aSandbox({ conditions: [is('Admitted', 'False', SandboxReason.waitingForQuota)] }),
      'STARTING',
      'waiting-for-quota',
    ],
    ['RUNNING without a reason', ready, aSandbox(running), 'RUNNING', null],
    ['PAUSED by its user', ready, aSandbox(running, { replicas: 0 }), 'PAUSED', 'user'],
    [
      'PAUSED by the quota',
      ready,
      aSandbox({ conditions: [is('Admitted', 'False', SandboxReason.quota)] }),
      'PAUSED',
      'quota',
    ],
    [
      'PAUSED for idleness',
      ready,
      aSandbox({ conditions: [is('Admitted', 'False', SandboxReason.idle)] }),
      'PAUSED',
      'idle',
    ],
    [
      'PAUSED for its age',
      ready,
      aSandbox({ conditions: [is('Admitted', 'False', SandboxReason.maxActiveTime)] }),
      'PAUSED',
      'max-active-time',
    ],
    [
      'ERROR for one that can not come up',
      ready,
      aSandbox({ conditions: [is('Failed', 'True', 'ImagePullFailed')] }),
      'ERROR',
      'image-pull-failed',
    ],
    [
      'ERROR after a failed start',
      { start: { status: 'ERROR', transitions: [], errorCode: 'RepositoryNotFound' } },
      undefined,
      'ERROR',
      'repository-not-found',
    ],
    ['MISSING when it is gone', ready, undefined, 'MISSING', 'deleted'],
    [
      'MISSING while it is being deleted',
      ready,
      aSandbox(running, { deleting: true }),
      'MISSING',
      'deleting',
    ],
    [
      "MISSING when the one of that name is not its owner's",
      ready,
      aSandbox(running, { owner: 'bob' }),
      'MISSING',
      'deleted',
    ],
  ])('%s', (_case, status, sandbox, phase, reason) => {
    expect(record(aConversation(status), sandbox)).toMatchObject({
      sandbox_status: phase,
      sandbox_status_reason: reason,
    });
  });
});

describe('the execution status of a conversation is', () => {
  const paused = aSandbox(running, { replicas: 0 });
  it.each<[string, Partial<ConversationStatus>, Sandbox | undefined, string | null]>([
    [
      'what the agent says while RUNNING',
      { executionStatus: 'running' },
      aSandbox(running),
      'running',
    ],
    ['null while no poll has asked the agent', {}, aSandbox(running), null],
    [
      'paused when a pause interrupted a run',
      { executionStatus: 'running', interruption: { reason: 'Quota', time: at(5) } },
      paused,
      'paused',
    ],
    ['paused when the agent had paused before', { executionStatus: 'paused' }, paused, 'paused'],
    ['null when a pause interrupted nothing', { executionStatus: 'finished' }, paused, null],
    ['null when the sandbox is gone', { executionStatus: 'running' }, undefined, null],
  ])('%s', (_case, status, sandbox, expected) => {
    expect(record(aConversation({ ...ready, ...status }), sandbox).execution_status).toBe(expected);
  });
});

describe('the reason why an agent is paused', () => {
  const detail = 'LLMAuthenticationError: the key is not valid';
  it.each<[string, Partial<ConversationStatus>, Sandbox, string | null]>([
    [
      'is said of an error',
      { executionStatus: 'error', executionDetail: detail },
      aSandbox(running),
      detail,
    ],
    [
      'is given for a run that a pause has interrupted',
      {
        executionStatus: 'paused',
        executionDetail: 'Its run was interrupted.',
        interruption: { reason: 'Quota', time: at(5) },
      },
      aSandbox(running, { replicas: 0 }),
      'Its run was interrupted.',
    ],
    [
      'is null where there is nothing to say',
      { executionStatus: 'finished' },
      aSandbox(running),
      null,
    ],
    [
      'is null where the status is not shown',
      { executionStatus: 'error', executionDetail: detail },
      aSandbox(running, { replicas: 0 }),
      null,
    ],
  ])('%s', (_case, status, sandbox, expected) => {
    expect(record(aConversation({ ...ready, ...status }), sandbox).execution_status_detail).toBe(
      expected,
    );
  });
});

describe('the result of a run', () => {
  const lastResult = { reason: 'ToolFailed', exitCode: 3, message: 'It failed.' } as const;
  const expected = {
    reason: 'tool-failed',
    exit_code: 3,
    message: 'It failed.',
    detail: 'The last command failed: exit code 3.',
  };
  it.each<[string, Partial<ConversationStatus>, Sandbox, unknown]>([
    ['shows when the run is over', { executionStatus: 'finished' }, aSandbox(running), expected],
    [
      'shows while the sandbox is paused',
      { executionStatus: 'finished' },
      aSandbox(running, { replicas: 0 }),
      expected,
    ],
    ['is null while the agent runs', { executionStatus: 'running' }, aSandbox(running), null],
  ])('%s', (_case, status, sandbox, result) => {
    const conversation = aConversation({ ...ready, ...status, lastResult });
    expect(record(conversation, sandbox).last_result).toEqual(result);
  });
});

describe('a conversation', () => {
  const exposure = exposedBy({
    agentUrlOf: (sandbox) => `https://agents.example/sandboxes/${sandbox}/AGENT_SERVER`,
    keys: sessionKeysOf((uid) => `key of ${uid}`),
  });

  it('emits every field, null where there is nothing', () => {
    const fields = record(aConversation());
    expect(conversationSchema.parse(fields)).toEqual(fields);
    const present = Object.entries(fields).filter(([, value]) => value !== null);
    expect(Object.fromEntries(present)).toEqual({
      id,
      created_by_user_id: 'alice',
      sandbox_status: 'STARTING',
      sandbox_status_reason: 'starting',
      title: 'Fix the login page, please.',
      pr_number: [],
      pull_requests: [],
      agent_kind: 'openhands',
      sub_conversation_ids: [],
      public: false,
      tags: {},
      created_at: '2026-03-01T12:00:00.000000Z',
      updated_at: '2026-03-01T12:00:00.000000Z',
    });
  });

  it('names the folder that its agent works in, whatever its state', () => {
    const conversation = aConversation({ ...ready, workingDir: '/workspace/project' });
    expect(record(conversation).workspace).toEqual({ working_dir: '/workspace/project' });
  });

  it('says how to reach its agent only while RUNNING', () => {
    expect(record(aConversation(ready), aSandbox(running), exposure)).toMatchObject({
      conversation_url: `https://agents.example/sandboxes/sbx-1/AGENT_SERVER/api/conversations/${id}`,
      session_api_key: 'key of uid-of-sbx-1 0 for uid-of-the-key',
    });
    expect(
      record(aConversation(ready), aSandbox(running, { replicas: 0 }), exposure),
    ).toMatchObject({ conversation_url: null, session_api_key: null });
    expect(record(aConversation(ready), aSandbox(running))).toMatchObject({
      conversation_url: null,
      session_api_key: null,
    });
  });

  it.each<[string, Partial<SandboxState>, string, string | null]>([
    ['of the kind', { agentKind: 'openhands' }, 'openhands', null],
    [
      'that names itself',
      { agentKind: 'openhands', agentTitle: 'Reference agent' },
      'openhands',
      'Reference agent',
    ],
    ['of a named agent', { agentKind: 'acp', agentName: 'codex' }, 'codex', 'codex'],
    ['of a command', { agentKind: 'acp', agentTitle: 'Reference agent' }, 'acp', null],
    ['from before kinds were recorded', {}, 'openhands', null],
  ])('has kind and name of its agent: %s', (_case, status, agent_kind, agent_name) => {
    expect(record(aConversation(ready), aSandbox({ ...running, ...status }))).toMatchObject({
      agent_kind,
      agent_name,
    });
  });

  it('is shown without access when its key can not be derived', () => {
    const broken = exposedBy({
      agentUrlOf: (sandbox) => `https://agents.example/sandboxes/${sandbox}/AGENT_SERVER`,
      keys: sessionKeysOf(() => {
        throw new Error('unknown master key');
      }),
    });
    expect(record(aConversation(ready), aSandbox(running), broken)).toMatchObject({
      sandbox_status: 'RUNNING',
      session_api_key: null,
    });
  });

  it("has its own title before the agent's, and that before its message", () => {
    expect(record(aConversation({ title: 'Agent' }, { title: 'Mine' })).title).toBe('Mine');
    expect(record(aConversation({ title: 'Agent' })).title).toBe('Agent');
  });

  it('has a title without any text', () => {
    const { initialMessage: _none, ...spec } = aConversation().spec;
    expect(record({ ...aConversation(), spec }).title).toBe('New conversation');
  });

  it('shows its metrics as numbers', () => {
    expect(
      record(aConversation({ metrics: { accumulatedCost: '0.125', promptTokens: 10 } })).metrics,
    ).toEqual({
      accumulated_cost: 0.125,
      accumulated_token_usage: { prompt_tokens: 10, completion_tokens: 0 },
    });
  });

  it('was updated when anything last happened to it', () => {
    expect(record(aConversation({ ...ready, lastActivityTime: at(7) })).updated_at).toBe(
      '2026-03-01T12:00:07.123000Z',
    );
  });
});

describe('a start task', () => {
  const steps = (
    ...statuses: ConversationStatus['start'] extends infer S
      ? (S extends { status: infer X } ? X : never)[]
      : never
  ) => statuses.map((status, index) => ({ status, time: at(index) }));

  it.each<[string, ConversationStatus | undefined, object]>([
    [
      'is WORKING before any controller has seen it',
      undefined,
      { status: 'WORKING', app_conversation_id: null, sandbox_id: null, error: null },
    ],
    [
      'names its sandbox from WAITING_FOR_SANDBOX on',
      {
        sandboxName: 'sbx-9',
        start: {
          status: 'WAITING_FOR_SANDBOX',
          transitions: steps('WORKING', 'WAITING_FOR_SANDBOX'),
        },
      },
      { status: 'WAITING_FOR_SANDBOX', app_conversation_id: null, sandbox_id: 'sbx-9' },
    ],
    [
      'names its conversation when READY',
      { sandboxName: 'sbx-9', start: { status: 'READY', transitions: steps('WORKING', 'READY') } },
      {
        status: 'READY',
        app_conversation_id: id,
        sandbox_id: 'sbx-9',
        error: null,
        detail: null,
        updated_at: '2026-03-01T12:00:01.123000Z',
      },
    ],
    [
      'says what went wrong, twice the same',
      {
        start: {
          status: 'ERROR',
          transitions: steps('WORKING', 'ERROR'),
          error: 'No such repository.',
        },
      },
      {
        status: 'ERROR',
        app_conversation_id: null,
        error: 'No such repository.',
        detail: 'No such repository.',
      },
    ],
    [
      'says what it waits for',
      {
        start: {
          status: 'WAITING_FOR_SANDBOX',
          transitions: [
            { status: 'WAITING_FOR_SANDBOX', time: at(1), detail: 'Waiting for room.' },
          ],
        },
      },
      { detail: 'Waiting for room.', error: null },
    ],
  ])('%s', (_case, status, expected) => {
    const task = taskOf(aConversation(status));
    expect(task).toMatchObject({
      id: startTaskIdOf(id),
      created_at: '2026-03-01T12:00:00.000000Z',
      ...expected,
    });
  });

  it('begins with WORKING and ends with the present status, whatever is stored', () => {
    const statuses = (status?: ConversationStatus) =>
      transitionsOf(cachedConversation(aConversation(status))).map(
        (transition) => transition.status,
      );
    expect(statuses()).toEqual(['WORKING']);
    expect(statuses({ start: { status: 'READY', transitions: [] } })).toEqual(['WORKING', 'READY']);
    expect(statuses({ start: { status: 'ERROR', transitions: steps('WORKING') } })).toEqual([
      'WORKING',
      'ERROR',
    ]);
    expect(
      statuses({ start: { status: 'READY', transitions: steps('WAITING_FOR_SANDBOX', 'READY') } }),
    ).toEqual(['WORKING', 'WAITING_FOR_SANDBOX', 'READY']);
  });

  it('echoes the request', () => {
    const conversation = aConversation(undefined, {
      repository: { name: 'acme/shop', branch: 'main', provider: 'github' },
      initialMessage: {
        role: 'user',
        content: [{ type: 'image', imageUrls: ['data:,x'] }],
        run: false,
      },
      sandboxName: 'sbx-7',
      agent: { model: 'm', type: 'plan' },
      prNumbers: [4],
    });
    expect(taskOf(conversation).request).toMatchObject({
      initial_message: {
        role: 'user',
        content: [{ type: 'image', image_urls: ['data:,x'] }],
        run: false,
      },
      selected_repository: 'acme/shop',
      selected_branch: 'main',
      git_provider: 'github',
      sandbox_id: 'sbx-7',
      llm_model: 'm',
      agent_type: 'plan',
      pr_number: [4],
      title: null,
      conversation_id: null,
    });
  });
});

describe('a sandbox', () => {
  const exposure = exposedBy({
    agentUrlOf: (sandbox) => `https://agents.example/sandboxes/${sandbox}/AGENT_SERVER`,
    keys: sessionKeysOf(() => 'k'),
  });
  it('shows its URLs and key while RUNNING', () => {
    expect(presentSandbox(aSandbox(running), exposure, reader)).toEqual({
      id: 'sbx-1',
      created_by_user_id: 'alice',
      sandbox_spec_id: 'default',
      status: 'RUNNING',
      status_detail: 'Running.',
      session_api_key: 'k 0 for uid-of-the-key',
      exposed_urls: [
        {
          name: 'AGENT_SERVER',
          url: 'https://agents.example/sandboxes/sbx-1/AGENT_SERVER',
          port: 8123,
        },
      ],
      created_at: '2026-03-01T12:00:00.000000Z',
    });
    expect(presentSandbox(aSandbox(), exposure, reader)).toMatchObject({
      status: 'STARTING',
      session_api_key: null,
      exposed_urls: [],
    });
  });
});

describe('texts', () => {
  it.each([
    ['short', 'Fix it', 'Fix it'],
    ['on several lines', ' Fix\n\n it\t now ', 'Fix it now'],
    ['of nothing but white space', ' \n ', ''],
    ['with a code block', 'Run this:\n```sh\nmake\n```\nand that', 'Run this:'],
    ['of a code block', '```sh\nmake test\n```', 'make test'],
    ['with code in a line', 'Say `hello` ``` twice', 'Say `hello` ``` twice'],
    ['long', 'word '.repeat(40), `${'word '.repeat(15)}word…`],
    ['without spaces', 'x'.repeat(100), `${'x'.repeat(79)}…`],
    ['of emoji', '🙂'.repeat(60), `${'🙂'.repeat(39)}…`],
  ])('%s become a title', (_case, text, title) => {
    expect(firstWords(text)).toBe(title);
    expect(title.length).toBeLessThanOrEqual(80);
  });

  it.each([
    ['2026-03-01T12:00:00Z', '2026-03-01T12:00:00.000000Z'],
    ['2026-03-01T12:00:00.5+01:00', '2026-03-01T11:00:00.500000Z'],
  ])('%s is sent as %s', (text, expected) => {
    expect(wireTime(text)).toBe(expected);
  });
});
