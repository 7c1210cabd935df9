import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { finish, marker, tool } from '../support/model-server.ts';
import { Agents, hookMs, startMs } from './support/agents.ts';

let agents: Agents;

beforeAll(async () => {
  agents = await Agents.start();
}, hookMs);
afterAll(() => agents.stopKeyless(), hookMs);

describe('with the real agent, the quota', () => {
  it('pauses a task that runs, and lets it finish when there is room again', async () => {
    await agents.limit(1);
    agents.model.script(
      'first',
      tool('echo before >> before.txt'),
      tool('echo begun > begun; sleep 60'),
      tool('echo after >> after.txt'),
      finish,
    );
    agents.model.script('second', tool('echo second > second.txt'), finish);
    const first = await agents.begin(`Work. ${marker('first')}`);
    // In the middle of its second tool call: the agent does not repeat an interrupted call, and its
    // model does.
    await agents.file(first.sandbox, 'begun');
    await agents.reaches(first.id, { execution_status: 'running' });
    const { id: task } = await agents.up.start(`Work as well. ${marker('second')}`);
    await agents.reaches(first.id, {
      sandbox_status: 'PAUSED',
      sandbox_status_reason: 'quota',
      execution_status: 'paused',
    });
    const second = (await agents.up.over(task, startMs)).app_conversation_id ?? '';
    await agents.reaches(second, { execution_status: 'finished' });
    expect(await agents.up.conversation(first.id)).toMatchObject({
      sandbox_status: 'PAUSED',
      execution_status: 'paused',
    });

    await agents.delete(second);
    await agents.reaches(first.id, { sandbox_status: 'RUNNING' });
    await agents.reaches(first.id, { execution_status: 'finished' });
    const { sandbox } = first;
    expect([
      await agents.fileNow(sandbox, 'before.txt'),
      await agents.fileNow(sandbox, 'after.txt'),
    ]).toEqual(['before\n', 'after\n']);
    expect(agents.model.requests('first')).toHaveLength(4);
    await agents.delete(first.id);
  });
});

/** The idle time as the agent itself counts it. */
async function idleSeconds(id: string): Promise<number> {
  const { conversation_url: url } = await agents.up.conversation(id);
  const response = await fetch(`${new URL(url ?? '').origin}/server_info`);
  return z.object({ idle_time: z.number() }).parse(await response.json()).idle_time;
}

const approvalsSchema = z.array(z.object({ id: z.string(), summary: z.string() }));

const approvalsOf = (id: string) => `/api/v1/app-conversations/${id}/approvals`;

/** The id of the question about a command, as soon as the agent asks it. */
const asked = (id: string, command: string): Promise<string> =>
  eventually(
    `a question about ${command}`,
    async () => {
      const { body } = await agents.up.call('GET', approvalsOf(id));
      const [open] = approvalsSchema.parse(body);
      return open?.summary.includes(`\ncommand: ${command}\n`) === true && open.id;
    },
    startMs,
  );

async function answer(id: string, approval: string, body: object): Promise<void> {
  const path = `${approvalsOf(id)}/${approval}`;
  const { status, body: said } = await agents.up.call('POST', path, body);
  expect([status, said]).toMatchObject([200, { success: true }]);
}

describe('an agent that waits for a confirmation', () => {
  it('is paused neither by the quota nor for its idleness, and does what it has asked for once that is accepted', async () => {
    await agents.addTemplate('cautious', {
      agent: { confirmationPolicy: 'AlwaysConfirm' },
      idleTimeout: '15s',
    });
    await agents.limit(2);
    agents.model.script(
      'asks',
      tool('echo confirmed > confirmed.txt'),
      tool('echo approved > approved.txt'),
      tool('echo rejected > rejected.txt'),
      finish,
    );
    agents.model.script('other', { text: 'Nothing to do.' });
    const asking = await agents.begin(`Ask first. ${marker('asks')}`, {
      sandbox_spec_id: 'cautious',
    });
    await agents.reaches(asking.id, { execution_status: 'waiting_for_confirmation' });
    const younger = await agents.begin(`Nothing. ${marker('other')}`);
    await agents.reaches(younger.id, { execution_status: 'finished' });
    // The oldest would be paused for this one; the one that asks is.
    const { id: task } = await agents.up.start(`Nothing either. ${marker('other')}`);
    await agents.reaches(younger.id, { sandbox_status: 'PAUSED', sandbox_status_reason: 'quota' });
    expect((await agents.up.over(task, startMs)).status).toBe('READY');

    await eventually(
      'more idleness than is allowed',
      async () => (await idleSeconds(asking.id)) > 20,
      startMs,
    );
    expect(await agents.up.conversation(asking.id)).toMatchObject({
      sandbox_status: 'RUNNING',
      execution_status: 'waiting_for_confirmation',
    });
    expect(await agents.fileNow(asking.sandbox, 'confirmed.txt')).toBeUndefined();
    // As the official web UI sends it.
    const { conversation_url: url, session_api_key: key } = await agents.up.conversation(asking.id);
    const [host, path] = (url ?? '').split(/(?=\/api\/)/);
    const { status } = await agents.up.call('POST', '/api/cloud-proxy', {
      host,
      method: 'POST',
      path: `${path ?? ''}/events/respond_to_confirmation`,
      headers: { 'X-Session-API-Key': key },
      body: { accept: true },
    });
    expect(status).toBe(200);
    expect(await agents.file(asking.sandbox, 'confirmed.txt')).toBe('confirmed\n');
    // By the interface of the service.
    const toApprove = await asked(asking.id, 'echo approved > approved.txt');
    await answer(asking.id, toApprove, { decision: 'approve' });
    expect(await agents.file(asking.sandbox, 'approved.txt')).toBe('approved\n');
    const toReject = await asked(asking.id, 'echo rejected > rejected.txt');
    await answer(asking.id, toReject, { decision: 'reject', reason: 'Not this one.' });
    // A rejection leaves the run idle; the model learns of it with the next message.
    await agents.reaches(asking.id, { execution_status: 'idle' });
    expect(await agents.fileNow(asking.sandbox, 'rejected.txt')).toBeUndefined();
    const { status: sent } = await agents.up.call(
      'POST',
      `/api/v1/app-conversations/${asking.id}/send-message`,
      { content: [{ type: 'text', text: 'Continue.' }] },
    );
    expect([200, 202]).toContain(sent);
    // Its run is over, and so is its protection.
    await agents.reaches(asking.id, { sandbox_status: 'PAUSED', sandbox_status_reason: 'idle' });
    expect(
      await agents.k('get', 'conversation', asking.id, '-o', 'jsonpath={.status.executionStatus}'),
    ).toBe('finished');
  });

  it('keeps its question while it is paused, and the answer is for the same call after that', async () => {
    await agents.limit(10);
    const command = 'echo kept >> kept.txt';
    agents.model.script('kept', tool(command), tool(command), finish);
    const { id, sandbox } = await agents.begin(`Keep it. ${marker('kept')}`, {
      sandbox_spec_id: 'cautious',
    });
    const approval = await asked(id, command);
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    await eventually('the end of the pod', async () => {
      const pods = await agents.k('get', 'pods', '-o', 'name');
      return !pods.includes(sandbox);
    });
    expect(await agents.up.conversation(id)).toMatchObject({
      sandbox_status: 'PAUSED',
      execution_status: 'waiting_for_confirmation',
      pending_approval: { id: approval },
    });
    await answer(id, approval, { decision: 'approve' });
    expect(await agents.file(sandbox, 'kept.txt')).toBe('kept\n');
    await eventually('the end of the run', async () => {
      const { execution_status } = await agents.up.conversation(id);
      return execution_status === 'finished';
    });
    expect(await agents.fileNow(sandbox, 'kept.txt')).toBe('kept\n');
  });
});
