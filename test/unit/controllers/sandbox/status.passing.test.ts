import { isPassing, progressSince } from '../../../../src/controllers/sandbox/status.ts';
import { SandboxCondition, type SandboxState } from '../../../../src/resources/sandbox.ts';
import { aSandbox, admitted, condition, later, noon } from '../../../support/builders.ts';

const starting = (reason: string, rest: SandboxState = {}): SandboxState => ({
  phase: 'STARTING',
  reason,
  message: reason,
  replicas: 1,
  ...rest,
  conditions: [
    admitted,
    condition(SandboxCondition.ready, 'False', reason),
    condition(SandboxCondition.agentReady, 'False', reason),
    ...(rest.conditions ?? []),
  ],
});
const running: SandboxState = {
  ...starting('Running'),
  phase: 'RUNNING',
  conditions: [admitted, condition(SandboxCondition.ready, 'True')],
};

describe('a status passes', () => {
  it.each<[string, SandboxState | undefined, SandboxState]>([
    [
      'that is the first one of a sandbox',
      undefined,
      starting('WaitingForAdmission', { replicas: 0, pauseTime: noon }),
    ],
    [
      'that only follows an admission',
      { phase: 'STARTING', replicas: 1, conditions: [admitted] },
      starting('WaitingForPod'),
    ],
    [
      'that says where the pod runs',
      starting('WaitingForPod'),
      starting('WaitingForAgent', {
        podName: 'a',
        podUID: 'u',
        podIP: '10.0.0.1',
        agentPort: 8000,
      }),
    ],
  ])('%s', (_name, before, after) => {
    expect(isPassing(aSandbox(before === undefined ? {} : { status: before }), after)).toBe(true);
  });
});

describe('a status is stored at once', () => {
  it.each<[string, SandboxState | undefined, SandboxState]>([
    ['when the sandbox runs', starting('WaitingForAgent'), running],
    ['when a running sandbox starts again', running, starting('WaitingForPod')],
    ['when a failure has a code', starting('WaitingForPod'), starting('ImagePullFailed')],
    ['when a failure is over', starting('ImagePullFailed'), starting('WaitingForAgent')],
    ['when the first status is a failure', undefined, starting('TemplateNotFound')],
    [
      'when the sandbox comes back from a pause',
      starting('Quota', { phase: 'PAUSED' }),
      starting('WaitingForPod'),
    ],
    [
      'when the reservation is taken back',
      starting('WaitingForPod'),
      starting('WaitingForPod', { replicas: 0 }),
    ],
    [
      'when another run of the agent begins',
      starting('WaitingForAgent', { agentEpoch: 1 }),
      starting('WaitingForAgent', { agentEpoch: 2 }),
    ],
    [
      'when a condition changes',
      starting('WaitingForAgent'),
      starting('WaitingForAgent', { conditions: [condition(SandboxCondition.failed, 'True')] }),
    ],
  ])('%s', (_name, before, after) => {
    expect(isPassing(aSandbox(before === undefined ? {} : { status: before }), after)).toBe(false);
  });
});

it('the progress of a start counts from the admission, and before that from the creation', () => {
  const created = aSandbox();
  expect(progressSince(created)).toBe(created.metadata.creationTimestamp);
  const at = later(5_000);
  const conditions = [{ ...admitted, lastTransitionTime: at }];
  expect(progressSince(aSandbox({ status: { conditions } }))).toBe(at);
  expect(at).not.toBe(noon);
});
