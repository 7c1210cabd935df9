import {
  addHostileTemplates,
  goodStart,
  silentBehaviours,
  startSilentAgents,
} from '../support/hostile-agents.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

const startDeadlineSeconds = 20;
/** A busy machine takes several times as long as the operator's requests after the deadline. */
const slackMs = 40_000;

let up: Installation;
beforeAll(async () => {
  up = await Installation.start();
  await addHostileTemplates(up, [...silentBehaviours, 'refuses'], `${startDeadlineSeconds}s`);
});
afterAll(async () => {
  expect(await up.stop()).toBe(0);
});

// `make bench ONLY=hostile-agents` measures how long starts take beside hostile agents.
it('sandboxes whose agents are hostile report so at their deadline, and other starts become READY meanwhile', async () => {
  const ids = await startSilentAgents(up);
  const over = Promise.all(ids.map((id) => up.over(id, startDeadlineSeconds * 1000 + slackMs)));
  for (let count = 0; count < 5; count += 1) await goodStart(up);
  for (const task of await over) {
    expect(task).toMatchObject({
      status: 'ERROR',
      error: expect.stringMatching(/not ready within 20 s/) as string,
    });
  }
  const codes = await kubectl(up.kubeconfig, [
    'get',
    'conversations',
    '-o',
    'jsonpath={..status.start.errorCode}',
  ]);
  expect(codes.stdout.split(' ')).toEqual(silentBehaviours.map(() => 'StartDeadlineExceeded'));
});

it('an agent that refuses its conversation ends the start at once, with a message that no terminal obeys', async () => {
  const { id } = await up.start('Hello.', { sandbox_spec_id: 'refuses' });
  expect(await up.over(id)).toMatchObject({
    status: 'ERROR',
    error: 'The agent refused the conversation: The agent answered 422: I do not [31mlike it',
  });
});
