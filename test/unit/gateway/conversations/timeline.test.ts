import type { KubeEvent } from '@conversation-operator/kube/core';
import {
  timelineOf,
  type TimelineSources,
} from '../../../../src/gateway/conversations/timeline.ts';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import type { Conversation } from '../../../../src/resources/conversation.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';

const at = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, '0')}Z`;
const shown = (second: number) => at(second).replace('Z', '.000000Z');

const conversation = (status: Conversation['status'] = {}) =>
  cachedConversation({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'Conversation',
    metadata: { name: '0'.repeat(32), namespace: 'default', uid: 'c1', creationTimestamp: at(0) },
    spec: { owner: 'alice', templateName: 'default' },
    status,
  } as Conversation);

const sandbox = (conditions: NonNullable<NonNullable<Sandbox['status']>['conditions']>): Sandbox =>
  ({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'Sandbox',
    metadata: { name: 'sbx', namespace: 'default', uid: 's1', creationTimestamp: at(0) },
    spec: { owner: 'alice', templateName: 'default' },
    status: { conditions },
  }) as Sandbox;

const event = (fields: Partial<KubeEvent>): KubeEvent =>
  ({
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: 'e', namespace: 'default' },
    involvedObject: { kind: 'Sandbox', uid: 's1' },
    type: 'Normal',
    reason: 'PausedByQuota',
    message: 'Paused to make room for conversation 1.',
    firstTimestamp: at(20),
    lastTimestamp: at(20),
    count: 1,
    ...fields,
  }) as KubeEvent;

const condition = (type: string, status: 'True' | 'False', reason: string, second: number) => ({
  type,
  status,
  reason,
  message: `${reason}.`,
  lastTransitionTime: at(second),
});

const linesOf = (sources: Partial<TimelineSources>) =>
  timelineOf({
    conversation: conversation(),
    steps: [],
    sandbox: undefined,
    events: [],
    ...sources,
  }).map(({ time, until, kind, reason, message, is_warning, count }) =>
    [
      time.slice(17, 19),
      until?.slice(17, 19) ?? '',
      kind,
      reason,
      message,
      is_warning ? 'warning' : '',
      count,
    ].join('|'),
  );

describe('the time line of a conversation', () => {
  it('has the stages and the steps of its start with their ends', () => {
    expect(
      linesOf({
        conversation: conversation({
          start: {
            status: 'READY',
            transitions: [
              { status: 'WORKING', time: at(0) },
              { status: 'WAITING_FOR_SANDBOX', time: at(1) },
              { status: 'PREPARING_REPOSITORY', time: at(4) },
              // Earlier versions have stored the last line of git.
              { status: 'SETTING_UP_SKILLS', time: at(6), detail: 'Updating files: 100%, done.' },
              { status: 'READY', time: at(9) },
            ],
          },
        }),
        steps: [
          { name: 'clone', state: 'done', startedAt: at(5), updatedAt: at(6), endedAt: at(6) },
          { name: 'setup', state: 'failed', startedAt: at(7), updatedAt: at(8), exitCode: 3 },
        ],
      }),
    ).toEqual([
      '00|01|stage|WORKING|The service has accepted the start.||1',
      '01|04|stage|WAITING_FOR_SANDBOX|The start waits for its sandbox.||1',
      '04|06|stage|PREPARING_REPOSITORY|The workspace is prepared.||1',
      '05|06|step|clone|The step clone: done.||1',
      '06|09|stage|SETTING_UP_SKILLS|The agent gets the conversation.||1',
      '07||step|setup|The step setup: failed, exit code 3.|warning|1',
      '09||stage|READY|The agent has accepted the conversation.||1',
    ]);
  });

  it('has the latest 200 Events', () => {
    const events = Array.from({ length: 210 }, (_none, index) =>
      event({ lastTimestamp: new Date(index * 1_000).toISOString(), message: `Event ${index}.` }),
    );
    const messages = linesOf({ events }).flatMap((line) => /Event \d+/.exec(line) ?? []);
    expect([messages.length, messages[0], messages.at(-1)]).toEqual([200, 'Event 10', 'Event 209']);
  });

  it('shows why a start has failed', () => {
    expect(
      linesOf({
        conversation: conversation({
          start: {
            status: 'ERROR',
            error: 'There is no branch dev.',
            transitions: [
              { status: 'WORKING', time: at(0) },
              { status: 'ERROR', time: at(1) },
            ],
          },
        }),
      }).at(-1),
    ).toBe('01||stage|ERROR|There is no branch dev.|warning|1');
  });

  it('joins Events with the state that they report, and keeps the state once they are gone', () => {
    const paused = sandbox([
      condition('Paused', 'True', 'PausedByQuota', 21),
      condition('Ready', 'False', 'Paused', 21),
      condition('Admitted', 'False', 'PausedByQuota', 21),
    ]);
    const events = [
      event({}),
      event({ reason: 'Running', firstTimestamp: at(5), lastTimestamp: at(15), count: 3 }),
      event({ involvedObject: { kind: 'Conversation', uid: 'c1' }, reason: 'Ready' }),
    ];
    expect(linesOf({ sandbox: paused, events }).slice(1)).toEqual([
      '05|15|event|Running|Paused to make room for conversation 1.||3',
      '20||event|PausedByQuota|Paused to make room for conversation 1.||1',
    ]);
    expect(linesOf({ sandbox: paused }).slice(1)).toEqual([
      '21||state|PausedByQuota|PausedByQuota.||1',
    ]);
  });

  it('takes hostile Events as text, bounded in number and length', () => {
    const events = Array.from({ length: 300 }, (_, index) =>
      event({
        message: `${index}\u001b[31m${'x'.repeat(9_999)}`,
        reason: 'r'.repeat(999),
        type: 'Warning',
        count: -1,
      }),
    );
    const entries = timelineOf({
      conversation: conversation(),
      steps: [],
      sandbox: undefined,
      events: [...events, event({ firstTimestamp: 'soon' })],
    });
    expect(entries).toHaveLength(201);
    const last = entries.at(-1);
    expect(last?.message).toHaveLength(2048);
    expect(last?.message).not.toContain('\u001b');
    expect(last?.reason).toHaveLength(128);
    expect(last).toMatchObject({ is_warning: true, count: 1, time: shown(20) });
  });
});
