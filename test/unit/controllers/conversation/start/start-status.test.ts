import { agentRetryMs } from '../../../../../src/controllers/conversation/start/start-status.ts';

it.each([
  ['refused at once: in a second', 3, 1_000],
  ['took its time: after as long as that', 7_000, 7_000],
  ['hung until it was given up: not too late for the deadline of the step', 25_000, 20_000],
])('a step whose agent %s', (_, heldMs, expected) => {
  expect(agentRetryMs(heldMs)).toBe(expected);
});
