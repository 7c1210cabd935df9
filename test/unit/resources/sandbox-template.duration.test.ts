import { StepDeadlines } from '../../../src/controllers/conversation/start/step-deadlines.ts';
import { durationMs, type SandboxTemplate } from '../../../src/resources/sandbox-template.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import { aConversation, aSandbox, aTemplate, admitted, condition } from '../../support/builders.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const yearMs = 365.25 * 24 * 3_600_000;

describe('a duration', () => {
  it.each([
    ['90s', 90_000],
    ['1h30m', 5_400_000],
    ['0s', 0],
    ['876600h', 100 * yearMs],
    ['9999999999999999999h', 100 * yearMs],
    ['876600h1s', 100 * yearMs],
  ])('of %s has %s ms, at most those of 100 years', (text, ms) => {
    expect(durationMs(text)).toBe(ms);
  });
});

it('gives a start a deadline that a calendar has, however long the template lets it take', () => {
  const clock = new VirtualClock();
  const templates = new IndexedStore<SandboxTemplate>();
  templates.set(aTemplate({ startDeadline: '9999999999999999999h' }));
  const limits = { cloneTimeoutSeconds: 1, setupTimeoutSeconds: 1 };
  const deadlines = new StepDeadlines({ stores: { templates }, clock, limits });
  const conditions = [admitted, condition('Ready', 'False', 'WaitingForAgent')];
  const scope = {
    stored: aConversation(),
    status: { start: { status: 'WAITING_FOR_SANDBOX' as const, transitions: [] } },
    sandbox: aSandbox({ status: { conditions } }),
  };
  const status = deadlines.check(scope);
  expect(Date.parse(status.start?.deadline ?? '')).toBe(clock.now() + 100 * yearMs);
  expect(deadlines.leftMs({ ...scope, status })).toBe(100 * yearMs + 1);
});
