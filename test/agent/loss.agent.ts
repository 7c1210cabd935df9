import { eventually } from '../support/eventually.ts';
import { finish, marker, tool } from '../support/model-server.ts';
import { Agents, hookMs } from './support/agents.ts';

let agents: Agents;

beforeAll(async () => {
  agents = await Agents.start();
}, hookMs);
afterAll(() => agents.stopKeyless(), hookMs);

const steps = [
  tool('echo once >> once.txt'),
  tool('echo begun >> begun.txt; sleep 60; echo ended >> ended.txt'),
  tool('echo later >> later.txt'),
  finish,
];

/** Each earlier action is done once; the interrupted one is only reported to the model. */
async function expectWhole(name: string, sandbox: string): Promise<void> {
  const files = await Promise.all(
    ['once.txt', 'begun.txt', 'ended.txt', 'later.txt'].map((file) =>
      agents.fileNow(sandbox, file),
    ),
  );
  expect(files).toEqual(['once\n', 'begun\n', undefined, 'later\n']);
  const requests = agents.model.requests(name);
  expect(requests).toHaveLength(4);
  expect(requests[2]?.messages.at(-1)?.content).toMatch(
    /restart occurred|interrupted before completion/,
  );
}

describe('a run', () => {
  it('resumes when its agent is killed', async () => {
    agents.model.script('killed', ...steps);
    const { id, sandbox } = await agents.begin(`Work. ${marker('killed')}`);
    await agents.file(sandbox, 'begun.txt');
    process.kill(agents.agentProcess(), 'SIGKILL');
    await eventually(
      'another container',
      async () =>
        (await agents.k('get', 'pod', sandbox, '-o', 'jsonpath={..restartCount}')) === '1',
    );
    await agents.reaches(id, { execution_status: 'finished' });
    await expectWhole('killed', sandbox);
    await agents.delete(id);
  });

  it('resumes when everything is killed, operator and gateway too, and started again', async () => {
    agents.model.script('powerless', ...steps);
    const { id, sandbox } = await agents.begin(`Work. ${marker('powerless')}`);
    await agents.file(sandbox, 'begun.txt');
    await agents.kill();
    const orphans = agents.up.agentProcesses();
    expect(orphans.length).toBeGreaterThan(0);
    await agents.startAgain();
    const alive = new Set(agents.up.agentProcesses());
    expect(orphans.filter((pid) => alive.has(pid))).toEqual([]);
    await agents.reaches(id, { execution_status: 'finished' });
    await expectWhole('powerless', sandbox);
  });
});
