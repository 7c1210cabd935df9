import { fileURLToPath } from 'node:url';
import { referenceAgentImage } from '../../src/commands/default-template.ts';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

/** What agents do from their first connection on; the sandbox never gets RUNNING, and says why at its deadline. */
const silent = ['hangs', 'nonsense', 'fails', 'redirects', 'large', 'floods'];
const program = fileURLToPath(new URL('../support/hostile-agent-process.ts', import.meta.url));
const startDeadlineMs = 20_000;
/** How much longer than its deadline a start may take that has one: the operator asks again after 1 s, a call may take 3 s. */
const slackMs = 12_000;
/** How much longer, beyond three times the time, a start takes beside six hostile agents than alone: the median of five and more. */
const mostHarmMs = 3_000;

let up: Installation;
beforeAll(async () => {
  up = await Installation.start();
  for (const behaviour of [...silent, 'refuses']) {
    const spec = {
      podTemplate: {
        spec: {
          containers: [
            {
              name: 'agent',
              image: referenceAgentImage,
              command: [process.execPath, program, behaviour],
              // Only what the operator itself is told is of interest here.
              readinessProbe: { tcpSocket: { port: 8000 }, periodSeconds: 1 },
              livenessProbe: { tcpSocket: { port: 8000 }, periodSeconds: 10 },
            },
          ],
        },
      },
      startDeadline: `${startDeadlineMs / 1000}s`,
    };
    const manifest = { apiVersion: 'conversation-operator.dev/v1alpha1', kind: 'SandboxTemplate', metadata: { name: behaviour }, spec };
    const { code, stderr } = await kubectl(up.kubeconfig, ['apply', '-f', '-'], JSON.stringify(manifest));
    expect([code, stderr]).toEqual([0, '']);
  }
}, 60_000);
afterAll(async () => {
  expect(await up.stop()).toBe(0);
});

const timed = async (start: () => Promise<unknown>): Promise<number> => {
  const beganMs = performance.now();
  await start();
  return performance.now() - beganMs;
};
const goodStart = async () => {
  const { id } = await up.start('Hello.');
  const task = await up.over(id, 30_000);
  expect(task).toMatchObject({ status: 'READY' });
  await up.call('DELETE', `/api/v1/app-conversations/${task.app_conversation_id ?? ''}`);
};

const middleOf = (times: readonly number[]): number => times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? NaN;

it('sandboxes whose agents are hostile say so at their deadline, and others start meanwhile as before', async () => {
  const alone: number[] = [];
  for (let count = 0; count < 5; count += 1) alone.push(await timed(goodStart));
  const began = await Promise.all(
    silent.map(async (behaviour) => ({ behaviour, ...(await up.start('Hello.', { sandbox_spec_id: behaviour })) })),
  );
  const beganMs = performance.now();
  // Their processes are there, and the operator asks them: what they take of the machine to come up is not the matter here.
  await eventually('the hostile agents', async () => {
    const { stdout } = await kubectl(up.kubeconfig, ['get', 'sandboxes', '-o', 'jsonpath={..status.reason}']);
    return stdout.split(' ').filter((reason) => reason === 'WaitingForAgent').length === silent.length;
  });
  const over = Promise.all(began.map(async ({ id, behaviour }) => ({ behaviour, ...(await up.over(id, startDeadlineMs + slackMs)) })));
  const beside: number[] = [];
  while (beside.length < 5 || (beside.length < 15 && performance.now() - beganMs < startDeadlineMs / 2))
    beside.push(await timed(goodStart));
  for (const task of await over) {
    expect(task).toMatchObject({ status: 'ERROR', error: expect.stringMatching(/not ready within 20 s/) as string });
  }
  const codes = await kubectl(up.kubeconfig, ['get', 'conversations', '-o', 'jsonpath={..status.start.errorCode}']);
  expect(codes.stdout.split(' ')).toEqual(silent.map(() => 'StartDeadlineExceeded'));
  process.stdout.write(`starts: ${Math.round(middleOf(alone))} ms alone, ${Math.round(middleOf(beside))} ms beside hostile agents\n`);
  expect(middleOf(beside)).toBeLessThan(3 * middleOf(alone) + mostHarmMs);
}, 120_000);

it('an agent that refuses its conversation ends the start at once, in words that nothing obeys', async () => {
  const { id } = await up.start('Hello.', { sandbox_spec_id: 'refuses' });
  expect(await up.over(id, 30_000)).toMatchObject({
    status: 'ERROR',
    error: 'The agent refused the conversation: The agent answered 422: I do not [31mlike it',
  });
}, 60_000);
