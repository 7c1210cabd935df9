import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newUuid } from '@conversation-operator/base/uuid';
import { AgentVolume, eventsOf, eventually, script } from './agent-process.ts';
import { firstLine, lives } from '../../support/process-file.ts';

/** A conversation in the middle of its first of two blocks, with a second message behind it. */
async function inTheMiddle(volume: AgentVolume) {
  const agent = await volume.startReady();
  const id = newUuid(Date.now());
  const { client, workingDir } = volume;
  const message = script('echo begun >> log; echo $$ > pid; sleep 600', 'echo second >> log');
  await client.createConversation(agent.endpoint, { id, workingDir, message });
  const pid = await eventually(() => firstLine(join(workingDir, 'pid')));
  await client.sendMessage(agent.endpoint, id, script('echo third >> log'));
  return { agent, id, pid };
}

describe('a reference agent that is killed during a run', () => {
  it('takes its command along, reports the loss, and continues with the rest', async () => {
    await using volume = await AgentVolume.create();
    const { agent, id, pid } = await inTheMiddle(volume);
    await agent.stop('SIGKILL');
    await eventually(() => (lives(pid) ? undefined : true));

    const { endpoint } = await volume.startReady();
    expect((await volume.client.conversation(endpoint, id))?.executionStatus).toBe('error');
    expect(await volume.client.lastError(endpoint, id)).toBeUndefined();
    const [loss] = await eventsOf(endpoint, id, 'kind=AgentErrorEvent');
    expect(loss?.['error']).toMatch(/^A restart occurred while this tool was in progress\. /);
    expect(await volume.client.userMessages(endpoint, id, 100)).toHaveLength(2);

    await volume.client.run(endpoint, id);
    await volume.until(endpoint, id, 'finished');
    expect(await readFile(join(volume.workingDir, 'log'), 'utf8')).toBe('begun\nsecond\nthird\n');
  });

  it('reports the loss once, however often it starts', async () => {
    await using volume = await AgentVolume.create();
    const { agent, id } = await inTheMiddle(volume);
    await agent.stop('SIGKILL');
    await (await volume.startReady()).stop('SIGKILL');
    const { endpoint } = await volume.startReady();
    expect(await eventsOf(endpoint, id, 'kind=AgentErrorEvent')).toHaveLength(1);
  });
});

describe('a reference agent that is asked to stop during a run', () => {
  it('pauses, exits in time, and continues later', async () => {
    await using volume = await AgentVolume.create();
    const { agent, id, pid } = await inTheMiddle(volume);
    expect(await agent.stop('SIGTERM')).toBe(0);
    expect(lives(pid)).toBe(false);

    const { endpoint } = await volume.startReady();
    expect((await volume.client.conversation(endpoint, id))?.executionStatus).toBe('paused');
    expect(await eventsOf(endpoint, id, 'kind=PauseEvent')).toHaveLength(1);
    await volume.client.run(endpoint, id);
    await volume.until(endpoint, id, 'finished');
    expect(await readFile(join(volume.workingDir, 'log'), 'utf8')).toBe('begun\nsecond\nthird\n');
  });

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'ends in an error after %s, because the lost block is not repeated',
    async (signal) => {
      await using volume = await AgentVolume.create();
      const agent = await volume.startReady();
      const id = newUuid(Date.now());
      const { client, workingDir } = volume;
      const message = script('echo begun >> log; sleep 600', 'echo second >> log');
      await client.createConversation(agent.endpoint, { id, workingDir, message });
      await eventually(() => firstLine(join(workingDir, 'log')));
      await agent.stop(signal);

      const { endpoint } = await volume.startReady();
      await client.run(endpoint, id);
      await volume.until(endpoint, id, 'error');
      expect(await client.lastError(endpoint, id)).toEqual({
        code: 'BlockLost',
        detail:
          'Code block 1 ended with the container of the agent, and may have been executed in part. I do not repeat it: check its effects, and send what is still to be done.',
      });
      expect(await readFile(join(workingDir, 'log'), 'utf8')).toBe('begun\nsecond\n');
      const [words] = await eventsOf(endpoint, id, 'kind=MessageEvent&sort_order=TIMESTAMP_DESC');
      expect(JSON.stringify(words)).toContain('2. `echo second >> log`: exit code 0');

      await client.sendMessage(endpoint, id, script('echo third >> log'));
      await volume.until(endpoint, id, 'finished');
      expect(await readFile(join(workingDir, 'log'), 'utf8')).toBe('begun\nsecond\nthird\n');
    },
  );

  it('exits in time when it is dormant', async () => {
    await using volume = await AgentVolume.create();
    const agent = await volume.start();
    expect(await agent.stop('SIGTERM')).toBe(0);
  });
});
