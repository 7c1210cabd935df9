import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newUuid } from '@conversation-operator/base/uuid';
import { ModelServer, finish, tool as terminal } from '../../support/model-server.ts';
import { AgentVolume, call, eventsOf, eventually } from './agent-process.ts';

const message = { content: [{ type: 'text', text: 'Make a file' }] } as const;

async function begin(volume: AgentVolume, llm: ModelServer, fields: object = {}) {
  const agent = await volume.startReady();
  const id = newUuid(Date.now());
  await call(agent.endpoint, 'POST /api/conversations', {
    conversation_id: id,
    workspace: { working_dir: volume.workingDir },
    agent_settings: {
      llm: { model: 'openai/m', base_url: llm.baseUrl, api_key: 'llm-key', num_retries: 0 },
      agent_context: { load_project_skills: true },
    },
    initial_message: message,
    ...fields,
  });
  return { ...agent, id };
}

describe('a conversation with a model', () => {
  it('does what the model asks for until it finishes', async () => {
    await using llm = await ModelServer.start(terminal('echo made > file; cat file'), finish);
    await using volume = await AgentVolume.create();
    await writeFile(join(volume.workingDir, 'AGENTS.md'), 'Rule 42');
    const { endpoint, id } = await begin(volume, llm);
    const conversation = await volume.until(endpoint, id, 'finished', 'error');
    expect(conversation).toMatchObject({
      executionStatus: 'finished',
      metrics: { promptTokens: 20, completionTokens: 4 },
    });
    expect(await readFile(join(volume.workingDir, 'file'), 'utf8')).toBe('made\n');
    expect(llm.requests()[0]).toMatchObject({ model: 'm', authorization: 'Bearer llm-key' });
    expect(llm.requests()[0]?.messages[0]?.content).toContain('Rule 42');
    expect(llm.requests()[1]?.messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'tool',
    ]);
    expect(llm.requests()[1]?.messages[3]?.content).toBe('made\n\n[exit code 0]');
    const { body } = await call(endpoint, `GET /api/conversations/${id}/agent_final_response`);
    expect(body).toEqual({ response: 'all done' });
    const stored = await readFile(join(volume.folder, 'conversations', id, 'meta.json'), 'utf8');
    expect(stored).not.toContain('llm-key');
  });

  it('takes a plain answer for the end, and another message for the next task', async () => {
    await using llm = await ModelServer.start({ text: 'Hello' }, { text: 'Again' });
    await using volume = await AgentVolume.create();
    const { endpoint, id } = await begin(volume, llm);
    await volume.until(endpoint, id, 'finished');
    await volume.client.sendMessage(endpoint, id, message);
    await eventually(() => (llm.requests().length === 2 ? true : undefined));
    await volume.until(endpoint, id, 'finished');
    expect(llm.requests()[1]?.messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
    ]);
  });

  it.each([
    [401, 'LLMAuthenticationError'],
    [403, 'LLMBadRequestError'],
    [404, 'NotFoundError'],
    [429, 'LLMRateLimitError'],
    [500, 'LLMServiceUnavailableError'],
    [400, 'LLMBadRequestError'],
  ])('ends in an error when the model answers %d, and can be run again', async (status, code) => {
    await using llm = await ModelServer.start({ status }, finish);
    await using volume = await AgentVolume.create();
    const { endpoint, id } = await begin(volume, llm);
    await volume.until(endpoint, id, 'error');
    expect(await volume.client.lastError(endpoint, id)).toMatchObject({ code });
    await volume.client.run(endpoint, id);
    await volume.until(endpoint, id, 'finished');
  });

  it('reports to the model that a requested tool does not exist', async () => {
    await using llm = await ModelServer.start({ tool: 'teleport', arguments: {} }, finish);
    await using volume = await AgentVolume.create();
    const { endpoint, id } = await begin(volume, llm);
    await volume.until(endpoint, id, 'finished');
    expect(llm.requests()[1]?.messages.at(-1)?.content).toContain('There is no tool teleport');
  });

  it('ends at the limit of steps', async () => {
    await using llm = await ModelServer.start(terminal('echo 1'), terminal('echo 2'));
    await using volume = await AgentVolume.create();
    const { endpoint, id } = await begin(volume, llm, { max_iterations: 2 });
    await volume.until(endpoint, id, 'error');
    expect(await volume.client.lastError(endpoint, id)).toMatchObject({
      code: 'MaxIterationsReached',
    });
  });

  it('is stuck when the model asks for the same again and again', async () => {
    await using llm = await ModelServer.start(terminal('false'));
    await using volume = await AgentVolume.create();
    const { endpoint, id } = await begin(volume, llm);
    await volume.until(endpoint, id, 'stuck');
    expect(llm.requests()).toHaveLength(4);
  });

  it('is interrupted while the model thinks, and asks again when it continues', async () => {
    await using llm = await ModelServer.start('hang', finish);
    await using volume = await AgentVolume.create();
    const { endpoint, id } = await begin(volume, llm);
    await eventually(() => (llm.requests().length === 1 ? true : undefined));
    await volume.client.interrupt(endpoint, id);
    expect((await volume.client.conversation(endpoint, id))?.executionStatus).toBe('paused');
    await volume.client.run(endpoint, id);
    await volume.until(endpoint, id, 'finished');
  });

  it('continues after the agent was killed, and the model learns of the command that was lost', async () => {
    await using llm = await ModelServer.start(terminal('touch begun; sleep 30'), finish);
    await using volume = await AgentVolume.create();
    const { id, stop } = await begin(volume, llm);
    await eventually(() => (existsSync(join(volume.workingDir, 'begun')) ? true : undefined));
    await stop('SIGKILL');
    const { endpoint } = await volume.startReady();
    await volume.client.run(endpoint, id);
    await volume.until(endpoint, id, 'finished');
    expect(llm.requests()[1]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      content: expect.stringMatching(/^A restart occurred/) as string,
    });
  });

  it('takes model, address and key from the environment', async () => {
    await using llm = await ModelServer.start({ text: 'Hello' });
    await using volume = await AgentVolume.create({
      LLM_MODEL: 'env-model',
      LLM_BASE_URL: llm.baseUrl,
      LLM_API_KEY: 'env-key',
    });
    const { endpoint } = await volume.startReady();
    const id = newUuid(Date.now());
    await volume.client.createConversation(endpoint, {
      id,
      workingDir: volume.workingDir,
      message,
    });
    await volume.until(endpoint, id, 'finished');
    expect(llm.requests()[0]).toMatchObject({
      model: 'env-model',
      authorization: 'Bearer env-key',
    });
  });

  it('does not send the key of the environment to another address', async () => {
    await using llm = await ModelServer.start({ text: 'Hello' });
    await using volume = await AgentVolume.create({
      LLM_MODEL: 'env-model',
      LLM_API_KEY: 'env-key',
    });
    const { endpoint } = await volume.startReady();
    const id = newUuid(Date.now());
    const { client, workingDir } = volume;
    await client.createConversation(endpoint, {
      id,
      workingDir,
      message,
      llm: { model: 'm', baseUrl: llm.baseUrl },
    });
    await volume.until(endpoint, id, 'finished');
    expect(llm.requests()[0]?.authorization).not.toContain('env-key');
  });

  it('gives secrets to commands that name them, and hides their values', async () => {
    await using llm = await ModelServer.start(
      terminal('echo "<$TOKEN>" | tee file'),
      terminal('env'),
      finish,
    );
    await using volume = await AgentVolume.create();
    const { endpoint, id } = await begin(volume, llm, {
      secrets: { TOKEN: { kind: 'StaticSecret', value: 'very-secret' } },
    });
    await volume.until(endpoint, id, 'finished');
    expect(await readFile(join(volume.workingDir, 'file'), 'utf8')).toBe('<very-secret>\n');
    const [first, second] = await eventsOf(endpoint, id, 'kind=ObservationEvent');
    expect(JSON.stringify(first)).toContain('<<secret-hidden>>');
    expect(JSON.stringify(second)).not.toContain('TOKEN');
  });
});
