import { finish, marker, tool } from '../support/model-server.ts';
import { Agents, hookMs, startMs } from './support/agents.ts';

let agents: Agents;

beforeAll(async () => {
  agents = await Agents.start();
}, hookMs);
afterAll(() => agents.stopKeyless(), hookMs);

/** The cause of a failed run, as kubectl and the REST service report it. */
async function reasonsOf(id: string): Promise<{ kubectl: string; rest: string }> {
  const kubectl = await agents.k(
    'get',
    'conversation',
    id,
    '-o',
    'jsonpath={.status.executionDetail}',
  );
  return { kubectl, rest: JSON.stringify(await agents.events(id, '&kind=ConversationErrorEvent')) };
}

describe('when the model', () => {
  it('is not there, refuses the key, or knows no such model, the run ends in error with a reason; where it only wants patience, it finishes', async () => {
    // An address at which nothing listens.
    await agents.addTemplate('no-model', { agent: { baseUrl: 'http://127.0.0.1:9/v1' } });
    agents.model.script('401', { status: 401 });
    agents.model.script('404', { status: 404 });
    agents.model.script(
      '429',
      { status: 429, retryAfterSeconds: 1 },
      tool('echo patient > patient.txt'),
      { status: 500 },
      'reset',
      'malformed',
      finish,
    );
    const down = agents.begin(`Hello. ${marker('down')}`, { sandbox_spec_id: 'no-model' });
    const refused = await agents.begin(`Hello. ${marker('401')}`);
    const shared = { sandbox_id: refused.sandbox };
    const [unknown, patient] = await Promise.all([
      agents.begin(`Hello. ${marker('404')}`, shared),
      agents.begin(`Work. ${marker('429')}`, shared),
    ]);

    await agents.reaches(refused.id, { execution_status: 'error' });
    expect(await reasonsOf(refused.id)).toEqual({
      kubectl: expect.stringContaining('LLMAuthenticationError') as string,
      rest: expect.stringContaining('LLMAuthenticationError') as string,
    });
    expect(await agents.up.conversation(refused.id)).toMatchObject({
      execution_status_detail: expect.stringContaining('LLMAuthenticationError') as string,
    });
    await agents.reaches(unknown.id, { execution_status: 'error' });
    expect((await reasonsOf(unknown.id)).kubectl).toContain('NotFoundError');

    // The agent itself tries for two minutes.
    await agents.reaches(patient.id, { execution_status: 'finished' }, 400_000);
    expect(await agents.file(patient.sandbox, 'patient.txt')).toBe('patient\n');
    expect(agents.model.requests('429')).toHaveLength(6);
    const { id } = await down;
    await agents.reaches(id, { execution_status: 'error' }, 400_000);
    const { kubectl, rest } = await reasonsOf(id);
    expect([kubectl, rest]).toEqual([
      expect.stringMatching(/LLMServiceUnavailable/),
      expect.stringMatching(/LLMServiceUnavailable/),
    ]);
  });
});

describe('without a model', () => {
  it('a start ends in error, and says what is missing', async () => {
    await agents.addTemplate('unconfigured', {});
    await agents.k(
      'patch',
      'sandboxtemplate',
      'unconfigured',
      '--type',
      'merge',
      '-p',
      '{"spec":{"agent":{"model":null,"credential":null}}}',
    );
    const { id } = await agents.up.start('Hello.', { sandbox_spec_id: 'unconfigured' });
    const task = await agents.up.over(id, startMs);
    expect(task).toMatchObject({
      status: 'ERROR',
      error: expect.stringMatching(/model/) as string,
    });
  });
});
