import {
  countdownOfConversation,
  countdownOfSandbox,
} from '../../../../src/controllers/retention/countdown.ts';
import type { Condition } from '../../../../src/resources/conditions.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../../src/resources/cached-conversation.ts';
import type { ConversationSpec, LaterMessage } from '../../../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../../../src/resources/conversation-status.ts';
import type { Sandbox, SandboxState } from '../../../../src/resources/sandbox.ts';
import type { SandboxTemplateSpec } from '../../../../src/resources/sandbox-template.ts';
import {
  aConversation,
  aSandbox,
  aTemplate,
  admitted,
  condition,
  later,
  noon,
  noonMs,
  type SandboxWish,
} from '../../../support/builders.ts';

const hourMs = 3_600_000;
const minuteMs = 60_000;
const nowMs = noonMs + 100 * hourMs;
const finishedAt = (ms: number): Condition => condition('Finished', 'True', 'Finished', later(ms));
const message: LaterMessage = {
  number: 1,
  id: 'a',
  role: 'user',
  content: [{ type: 'text', text: 'More.' }],
  run: true,
};

interface Wish {
  readonly spec?: Partial<ConversationSpec>;
  readonly status?: Partial<ConversationStatus>;
}
/** A conversation whose run was over at noon. */
const over = ({ spec, status }: Wish = {}): CachedConversation =>
  cachedConversation(
    aConversation({
      ...(spec === undefined ? {} : { spec }),
      status: {
        start: { status: 'READY', transitions: [] },
        executionStatus: 'finished',
        conditions: [finishedAt(0)],
        ...status,
      },
    }),
  );
const failedStart = (spec: Partial<ConversationSpec> = {}): CachedConversation =>
  over({ spec, status: { start: { status: 'ERROR', transitions: [] }, sandboxStatus: 'ERROR' } });
const keeping = (retention: NonNullable<SandboxTemplateSpec['retention']>) =>
  aTemplate({ retention });

const running = (at = -hourMs, more: Partial<SandboxState> = {}): Sandbox =>
  aSandbox({
    status: {
      conditions: [{ ...admitted, lastTransitionTime: later(at) }, condition('Ready', 'True')],
      replicas: 1,
      ...more,
    },
  });
const hasFailed = condition('Failed', 'True', 'CrashLoop', later(0));
const paused = (reason: string, at: number, more: SandboxWish = {}): Sandbox =>
  aSandbox({
    ...more,
    status: {
      conditions: [{ ...condition('Admitted', 'False', reason, later(at)), observedGeneration: 1 }],
      pauseTime: later(at),
      replicas: 0,
      ...more.status,
    },
  });

describe('a conversation that is over', () => {
  const of = (
    conversation: CachedConversation,
    retention = {},
    sandbox: Sandbox | undefined = running(),
  ) => {
    const countdown = countdownOfConversation({
      nowMs,
      conversation,
      sandbox,
      template: keeping(retention),
    });
    return countdown === undefined
      ? undefined
      : [countdown.rule, countdown.sinceMs - noonMs, countdown.keptMs];
  };

  it('is kept for ever without a setting', () => {
    expect(of(over())).toBeUndefined();
    expect(
      countdownOfConversation({
        nowMs,
        conversation: over(),
        sandbox: undefined,
        template: undefined,
      }),
    ).toBeUndefined();
  });

  it('is kept as long as its template says, or as it says itself', () => {
    expect(of(over(), { finished: '24h' })).toEqual(['Finished', 0, 24 * hourMs]);
    expect(of(over({ spec: { ttlSecondsAfterFinished: 60 } }), { finished: '24h' })).toEqual([
      'Finished',
      0,
      minuteMs,
    ]);
    expect(of(over({ spec: { ttlSecondsAfterFinished: 0 } }))).toEqual(['Finished', 0, 0]);
  });

  it('is kept from when its sandbox was resumed or paused after that', () => {
    expect(of(over(), { finished: '24h' }, running(hourMs))).toEqual([
      'Finished',
      hourMs,
      24 * hourMs,
    ]);
    expect(of(over(), { finished: '24h' }, paused('Idle', 2 * hourMs))).toEqual([
      'Finished',
      2 * hourMs,
      24 * hourMs,
    ]);
  });

  it('is kept from when its sandbox was paused while it waited for room', () => {
    const waiting = condition('Admitted', 'False', 'WaitingForQuota', later(0));
    const sandbox = aSandbox({
      replicas: 0,
      status: { conditions: [waiting], pauseTime: later(3 * hourMs), replicas: 0 },
    });
    expect(of(over(), { finished: '24h' }, sandbox)).toEqual(['Finished', 3 * hourMs, 24 * hourMs]);
  });

  it('is kept from when it was last used, also where no poll saw it work', () => {
    expect(of(over({ status: { lastActivityTime: later(hourMs) } }), { finished: '24h' })).toEqual([
      'Finished',
      hourMs,
      24 * hourMs,
    ]);
    expect(
      of(over({ status: { messages: { lastDelivered: 1, lastDeliveredTime: later(hourMs) } } }), {
        finished: '24h',
      }),
    ).toEqual(['Finished', hourMs, 24 * hourMs]);
    // The clock of the agent is not the operator's.
    expect(of(over({ status: { lastActivityTime: later(-hourMs) } }), { finished: '24h' })).toEqual(
      ['Finished', 0, 24 * hourMs],
    );
    expect(of(over({ status: { lastActivityTime: 'x' } }), { finished: '24h' })).toEqual([
      'Finished',
      0,
      24 * hourMs,
    ]);
  });

  it('is kept from the last request for its sandbox, whatever became of the request', () => {
    const asked = (at: number, sandbox = paused('Idle', 0)) => ({
      ...sandbox,
      metadata: {
        ...sandbox.metadata,
        annotations: { 'conversation-operator.dev/resume-requested-at': later(at) },
      },
      status: { ...sandbox.status, observedResumeRequest: later(at) },
    });
    expect(of(over(), { finished: '24h' }, asked(hourMs))).toEqual([
      'Finished',
      hourMs,
      24 * hourMs,
    ]);
    expect(of(over(), { finished: '24h' }, asked(101 * hourMs))).toEqual([
      'Finished',
      0,
      24 * hourMs,
    ]);
    expect(
      countdownOfSandbox({
        nowMs,
        sandbox: asked(hourMs),
        conversations: [],
        template: keeping({ paused: '2h' }),
      })?.sinceMs,
    ).toBe(noonMs + hourMs);
  });

  it('whose start has failed is kept as long as that says, or as it says itself', () => {
    expect(of(failedStart(), { finished: '1h' })).toBeUndefined();
    expect(of(failedStart(), { failed: '2h' })).toEqual(['Failed', 0, 2 * hourMs]);
    expect(of(failedStart({ ttlSecondsAfterFinished: 60 }), { failed: '2h' })).toEqual([
      'Finished',
      0,
      minuteMs,
    ]);
  });

  it('whose sandbox is gone is kept as long as records are, or as finished ones, whichever is over first', () => {
    const gone = over({ status: { sandboxStatus: 'MISSING' } });
    const without = (retention: object) => {
      const { rule, keptMs } =
        countdownOfConversation({
          nowMs,
          conversation: gone,
          sandbox: undefined,
          template: keeping(retention),
        }) ?? {};
      return [rule, keptMs];
    };
    expect(without({ records: '2h' })).toEqual(['Records', 2 * hourMs]);
    expect(without({ records: '2h', finished: '1h' })).toEqual(['Finished', hourMs]);
    expect(without({ records: '1h', finished: '2h' })).toEqual(['Records', hourMs]);
    // The version of a sandbox in a cache may be old.
    expect(of(gone, { records: '2h' })).toBeUndefined();
  });
});

describe('a conversation is kept', () => {
  const always = { finished: '0s', failed: '0s', paused: '0s', records: '0s' };
  const kept: readonly (readonly [string, CachedConversation, Sandbox?])[] = [
    [
      'while it starts',
      over({ status: { start: { status: 'WAITING_FOR_SANDBOX', transitions: [] } } }),
    ],
    [
      'while its agent works, whatever the condition says',
      over({ status: { executionStatus: 'running' } }),
    ],
    [
      'while its agent waits for a confirmation',
      over({ status: { executionStatus: 'waiting_for_confirmation' } }),
    ],
    ['while its run is paused', over({ status: { executionStatus: 'paused' } })],
    ['while it is idle', over({ status: { executionStatus: 'idle' } })],
    ['while a message waits for its agent', over({ spec: { messages: [message] } })],
    ['while it is not stored when it was over', over({ status: { conditions: [] } })],
    [
      'while the condition says that it is active',
      over({ status: { conditions: [condition('Finished', 'False', 'Active')] } }),
    ],
    [
      'when the time of its end can not be read',
      over({ status: { conditions: [{ ...finishedAt(0), lastTransitionTime: 'x' }] } }),
    ],
    [
      'when it is being deleted',
      { ...over(), metadata: { ...over().metadata, deletionTimestamp: noon } },
    ],
    [
      'while its sandbox comes up',
      over(),
      aSandbox({ status: { conditions: [admitted, condition('Ready', 'False')], replicas: 1 } }),
    ],
    [
      'while its sandbox is being paused',
      over(),
      { ...running(), spec: { ...running().spec, replicas: 0 } },
    ],
    [
      'while its sandbox is resumed after a failure',
      over(),
      {
        ...aSandbox({
          status: {
            conditions: [{ ...condition('Failed', 'True'), observedGeneration: 1 }],
            lastContainerID: 'x',
          },
        }),
        metadata: { ...aSandbox().metadata, generation: 3 },
      },
    ],
    [
      'while its sandbox waits for room',
      over(),
      aSandbox({ status: { conditions: [condition('Admitted', 'False', 'WaitingForQuota')] } }),
    ],
    [
      'while a resume waits to be seen',
      over(),
      {
        ...paused('Idle', 0),
        metadata: {
          ...paused('Idle', 0).metadata,
          annotations: { 'conversation-operator.dev/resume-requested-at': later(1) },
        },
      },
    ],
  ];

  it.each(
    kept.map(([name, conversation, sandbox = running()]) => [name, conversation, sandbox] as const),
  )('%s', (_name, conversation, sandbox) => {
    expect(
      countdownOfConversation({ nowMs, conversation, sandbox, template: keeping(always) }),
    ).toBeUndefined();
  });
});

describe('a sandbox', () => {
  const of = (
    sandbox: Sandbox,
    retention = {},
    conversations: readonly CachedConversation[] = [],
  ) => {
    const countdown = countdownOfSandbox({
      nowMs,
      sandbox,
      conversations,
      template: keeping(retention),
    });
    return countdown === undefined
      ? undefined
      : [countdown.rule, countdown.sinceMs - noonMs, countdown.keptMs];
  };
  const interrupted = {
    executionStatus: 'paused',
    interruption: { reason: 'Quota', time: noon },
  } as const;

  it.each(['Idle', 'MaxActiveTime', 'Quota', 'QuotaExceeded'])(
    'that is paused (%s) is kept as long as paused ones are',
    (reason) => {
      expect(of(paused(reason, hourMs), { paused: '2h' }, [over()])).toEqual([
        'Paused',
        hourMs,
        2 * hourMs,
      ]);
      expect(of(paused(reason, hourMs), {}, [over()])).toBeUndefined();
    },
  );

  it('that its owner has paused is kept as long, also without a conversation', () => {
    expect(of(paused('User', hourMs, { replicas: 0 }), { paused: '2h' })).toEqual([
      'Paused',
      hourMs,
      2 * hourMs,
    ]);
  });

  it('in ERROR is kept as long as failed ones are', () => {
    const failed = aSandbox({
      status: {
        conditions: [condition('Failed', 'True', 'CrashLoop', later(hourMs))],
        replicas: 0,
      },
    });
    expect(of(failed, { failed: '2h', paused: '1h' })).toEqual(['Failed', hourMs, 2 * hourMs]);
  });

  it.each<[string, Sandbox, CachedConversation[]]>([
    ['that runs', running(), [over()]],
    [
      'that waits for room',
      aSandbox({ status: { conditions: [condition('Admitted', 'False', 'WaitingForQuota')] } }),
      [],
    ],
    ['that no controller has seen yet', aSandbox(), []],
    ['whose pod may still be there', paused('Idle', 0, { status: { replicas: 1 } }), []],
    ['in which a start is under way', paused('Idle', 0), [cachedConversation(aConversation())]],
    [
      'whose agent gets a message when it is back',
      paused('Idle', 0),
      [over({ spec: { messages: [message] } })],
    ],
    [
      'that a quota has paused in the middle of a run',
      paused('Quota', 0),
      [over({ status: interrupted })],
    ],
    [
      'whose runs a quota has interrupted, without a poll since',
      paused('Quota', 0, { status: { interruptedConversationIDs: ['x'] } }),
      [],
    ],
    [
      'whose agent got a message in the moment of its pause',
      paused('Idle', 0),
      [over({ status: { executionStatus: 'running' } })],
    ],
    [
      'that is a warm sandbox whose slot another sandbox needs',
      paused('Quota', 0, { owner: '' }),
      [],
    ],
    [
      'that is a failed warm sandbox',
      aSandbox({ owner: '', status: { conditions: [hasFailed] } }),
      [],
    ],
    ['that is being deleted', paused('Idle', 0, { deleting: true }), []],
  ])('%s is kept', (_name, sandbox, conversations) => {
    expect(of(sandbox, { paused: '0s', failed: '0s' }, conversations)).toBeUndefined();
  });

  it('that was paused for its age in the middle of a run waits for a person, and for no longer than others', () => {
    expect(
      of(paused('MaxActiveTime', 0), { paused: '2h' }, [over({ status: interrupted })]),
    ).toEqual(['Paused', 0, 2 * hourMs]);
  });
});
