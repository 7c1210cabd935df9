import { StepDeadlines } from '../../../../../src/controllers/conversation/start/step-deadlines.ts';
import type { SandboxTemplate } from '../../../../../src/resources/sandbox-template.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import { aConversation, aSandbox, admitted, condition } from '../../../../support/builders.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const limits = { cloneTimeoutSeconds: 600, setupTimeoutSeconds: 300 };
const sandbox = aSandbox({ status: { conditions: [admitted, condition('Ready', 'True')] } });

it.each([
  ['WORKING', 60_000],
  ['WAITING_FOR_SANDBOX', 120_000],
  ['PREPARING_REPOSITORY', 660_000],
  ['SETTING_UP_SKILLS', 360_000],
] as const)('ends the step %s after %i ms, neither earlier nor later', async (step, allowedMs) => {
  const clock = new VirtualClock();
  const templates = new IndexedStore<SandboxTemplate>();
  const deadlines = new StepDeadlines({ stores: { templates }, clock, limits });
  const begun = {
    stored: aConversation({ status: { start: { status: step, transitions: [] } } }),
    status: { start: { status: step, transitions: [] } },
    sandbox,
  };
  const scope = { ...begun, status: deadlines.check(begun) };
  expect(Date.parse(scope.status.start?.deadline ?? '')).toBe(clock.now() + allowedMs);
  expect(deadlines.leftMs(scope)).toBe(allowedMs + 1);
  await clock.advance(allowedMs);
  expect(deadlines.check(scope)).toBe(scope.status);
  await clock.advance(1);
  expect(() => deadlines.check(scope)).toThrow(`within ${allowedMs / 1000} s`);
});
