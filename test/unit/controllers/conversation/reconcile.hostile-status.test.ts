import fc from 'fast-check';
import { AgentError } from '../../../../src/agent/errors.ts';
import {
  conversationOf,
  failureOf,
  userMessageOf,
} from '../../../../src/agent/openhands-mapping.ts';
import * as wire from '../../../../src/agent/wire.ts';
import { AgentConfigurations } from '../../../../src/controllers/conversation/agent-configuration.ts';
import { withAgentReport } from '../../../../src/controllers/conversation/execution/decide.ts';
import { withInFlight } from '../../../../src/controllers/conversation/messages/decide.ts';
import { StartFailure } from '../../../../src/controllers/conversation/start/stage.ts';
import {
  withFailure,
  withWorkingDir,
} from '../../../../src/controllers/conversation/start/start-status.ts';
import { noAgentCredentials } from '../../../../src/agent/credentials.ts';
import type { Json } from '../../../../packages/local-cluster/src/json/json.ts';
import type { Schema } from '../../../../packages/local-cluster/src/schema/structural-schema.ts';
import { validate } from '../../../../packages/local-cluster/src/schema/validate.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import { conversationDefinition } from '../../../../src/resources/conversation.ts';
import {
  conversationStatusSchema,
  type ConversationStatus,
} from '../../../../src/resources/conversation-status.ts';
import { crdOf } from '../../../../src/resources/crd.ts';
import { SandboxKeys } from '../../../../src/agent/keys.ts';
import { aConversation, aSandbox, noon, noonMs } from '../../../support/builders.ts';
import { conversationId, conversationInfo, dashedId } from '../../agent/fake-agent.ts';

/** Whatever an agent sends, what the API server is asked to store is stored. */
const schema = crdOf(conversationDefinition).spec.versions[0]?.schema.openAPIV3Schema.properties
  .status as unknown as Schema;

// eslint-disable-next-line no-control-regex -- these are what must not be there
const dirt = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/;

function expectStorable(status: ConversationStatus): void {
  const sent = JSON.parse(JSON.stringify(status)) as Json;
  expect(validate(sent, schema, 'status')).toEqual([]);
  expect(conversationStatusSchema.safeParse(sent).success).toBe(true);
  const walk = (value: unknown): void => {
    if (typeof value === 'string') {
      expect(value.isWellFormed()).toBe(true);
      expect(value).not.toMatch(dirt);
    } else if (typeof value === 'object' && value !== null) Object.values(value).forEach(walk);
  };
  walk(status);
}

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.constantFrom(
    '',
    '\ud800',
    'x'.repeat(199) + '\u{1f600}',
    '\u001b[2J\u0007',
    '\u202egnp.exe',
    'a\0b',
    'x'.repeat(5000),
    '\u{1f600}'.repeat(3000),
  ),
);
const number = fc.oneof(
  fc.double({ noDefaultInfinity: true, noNaN: true }),
  fc.constantFrom(1e308, -1e308, -1, 0.1, 5e-324, Number.MAX_SAFE_INTEGER, 2 ** 63, -0),
);
const time = fc.oneof(
  text,
  fc
    .date({ noInvalidDate: false })
    .map((date) => (Number.isNaN(date.getTime()) ? 'never' : date.toISOString())),
  fc.constantFrom(
    '2026-02-31T00:00:00Z',
    '9999-12-31T23:59:59Z',
    '2026-01-01',
    '2026-01-01T00:00:00',
    '0000-00-00T00:00:00Z',
    noon,
  ),
);
const anything = fc.oneof(
  text,
  number,
  time,
  fc.boolean(),
  fc.constant(null),
  fc.array(fc.integer()),
  fc.dictionary(text, number),
);
const usage = fc.record(
  {
    accumulated_cost: fc.oneof(number, anything),
    accumulated_token_usage: fc.oneof(
      fc.record(
        {
          prompt_tokens: fc.oneof(number, anything),
          completion_tokens: fc.oneof(number, anything),
        },
        { requiredKeys: [] },
      ),
      anything,
    ),
  },
  { requiredKeys: [] },
);
const info = fc.record(
  {
    // Mostly the right one: a status of another conversation is ignored.
    id: fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom(dashedId, conversationId, dashedId.toUpperCase()) },
      { weight: 1, arbitrary: fc.constantFrom('22222222-2222-4222-8222-222222222222', '') },
    ),
    execution_status: fc.oneof(
      fc.constantFrom(
        'idle',
        'running',
        'error',
        'stuck',
        'waiting_for_confirmation',
        'paused',
        'deleting',
      ),
      text,
    ),
    title: fc.oneof(text, anything),
    created_at: fc.oneof(time, anything),
    updated_at: fc.oneof(time, anything),
    last_user_message_id: anything,
    tags: anything,
    agent: fc.oneof(anything, fc.record({ llm: anything })),
    stats: fc.oneof(
      fc.record({ usage_to_metrics: fc.oneof(fc.dictionary(text, usage), anything) }),
      anything,
    ),
  },
  { requiredKeys: [] },
);
/** The body as it comes over the wire: JSON keeps the escapes of lone surrogates. */
const received = (body: unknown): unknown => JSON.parse(JSON.stringify(body));

const earlier: ConversationStatus = {
  start: { status: 'READY', transitions: [] },
  executionStatus: 'running',
  agentEpoch: 1,
};

it('whatever an agent says of a conversation, its status can be stored, or it has said nothing', () => {
  let read = 0;
  fc.assert(
    fc.property(info, (body) => {
      const parsed = wire.conversationInfoSchema.safeParse(
        received({ ...conversationInfo(), ...body }),
      );
      if (!parsed.success) return;
      try {
        const { status } = withAgentReport(earlier, conversationOf(parsed.data, conversationId), {
          agentEpoch: 1,
          nowMs: noonMs,
        });
        expectStorable(status);
        read += 1;
      } catch (error) {
        expect(error).toBeInstanceOf(AgentError);
      }
    }),
    { numRuns: 400 },
  );
  // Much of it is understood, else nothing would have been tried.
  expect(read).toBeGreaterThan(100);
});

it('whatever a sandbox says of its folder, its status can be stored', () => {
  expect(withWorkingDir(earlier, "/it's a/project")).toEqual({
    ...earlier,
    workingDir: "/it's a/project",
  });
  expect(withWorkingDir(earlier, `/${'x'.repeat(1024)}`)).toEqual(earlier);
  fc.assert(
    fc.property(fc.constantFrom('', '/'), text, (start, path) => {
      expectStorable(withWorkingDir(earlier, start + path));
    }),
  );
});

it('nonsense about the rest is no reason to lose sight of what it does', () => {
  const body = {
    ...conversationInfo({ execution_status: 'finished' }),
    title: 7,
    updated_at: [],
    stats: 'much',
    tags: 1,
    agent: 'me',
  };
  const { status } = withAgentReport(
    earlier,
    conversationOf(wire.conversationInfoSchema.parse(body), conversationId),
    { agentEpoch: 1, nowMs: noonMs },
  );
  expect(status).toMatchObject({ executionStatus: 'finished' });
});

it.each([
  ['a minute ago', '2026-03-01T11:59:00Z', '2026-03-01T11:59:00Z'],
  ['in some minutes, by its own clock', '2026-03-01T12:05:00Z', '2026-03-01T12:05:00Z'],
  ['in the far future', '9999-12-31T23:59:59Z', undefined],
])('an activity %s counts for what it can be', (_name, updatedAt, expected) => {
  const body = conversationInfo({ updated_at: updatedAt });
  const { status } = withAgentReport(
    earlier,
    conversationOf(wire.conversationInfoSchema.parse(body), conversationId),
    { agentEpoch: 1, nowMs: noonMs },
  );
  expect(status.lastActivityTime).toBe(expected);
});

it('whatever an agent says of an error, it can be stored', async () => {
  const configurations = new AgentConfigurations({
    credentials: noAgentCredentials,
    keys: new SandboxKeys([Buffer.alloc(32, 1)]),
    stores: { templates: new IndexedStore() },
    ownerSettings: { secretsOf: () => Promise.resolve([]) },
  });
  await fc.assert(
    fc.asyncProperty(fc.oneof(text, fc.constant(undefined)), text, async (code, detail) => {
      const failure = failureOf({ timestamp: noon, code, detail });
      const executionDetail = await configurations.shown(`${failure.code}: ${failure.detail}`, {
        conversation: aConversation(),
        sandbox: aSandbox(),
      });
      expectStorable({ ...earlier, executionStatus: 'error', executionDetail });
      expectStorable(
        withFailure({}, new StartFailure('AgentRefused', `The agent refused it: ${detail}`), noon),
      );
    }),
  );
});

it('whatever an agent calls its messages, the mark of one that is sent after them can be stored', () => {
  fc.assert(
    fc.property(
      fc.record({ id: anything, timestamp: anything, llm_message: fc.constant({ content: [] }) }),
      (item) => {
        const parsed = wire.messageEventsSchema.safeParse(
          received({ items: [item], next_page_id: null }),
        );
        const message = parsed.data?.items[0];
        if (message === undefined) return;
        const { id, timestamp } = userMessageOf(message);
        expectStorable(
          withInFlight({}, { number: 1, attempt: 1, time: noon, after: { id, timestamp } }),
        );
      },
    ),
  );
});
