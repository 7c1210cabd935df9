import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newUuid } from '@conversation-operator/base/uuid';
import type { AgentEndpoint } from '../../../src/agent/agent.ts';
import { TestMcpServer } from '../../../packages/agent-server/test/mcp-server.ts';
import { ModelServer, finish } from '../../support/model-server.ts';
import { AgentVolume, call, eventsOf, eventually } from './agent-process.ts';

const fence = '```';
const tool = (name: string, text = '') => `${fence}tool ${name}\n${text}\n${fence}\n`;
const shell = (text: string) => `${fence}sh\n${text}\n${fence}\n`;

/** Creates a conversation with an MCP server, whose message is a text. */
async function begin(
  volume: AgentVolume,
  endpoint: AgentEndpoint,
  server: TestMcpServer,
  { text, settings = {}, ...fields }: { readonly text: string; readonly [field: string]: unknown },
): Promise<string> {
  const id = newUuid(Date.now());
  const mcp_config = {
    tools: { url: server.url, transport: 'http', headers: { Authorization: server.key } },
    off: { url: 'http://127.0.0.1:9/', enabled: false },
  };
  const { status } = await call(endpoint, 'POST /api/conversations', {
    conversation_id: id,
    workspace: { working_dir: volume.workingDir },
    agent_settings: { mcp_config, ...(settings as object) },
    initial_message: { content: [{ type: 'text', text }] },
    ...fields,
  });
  expect(status).toBe(201);
  return id;
}

const responseOf = async (endpoint: AgentEndpoint, id: string) => {
  const { body } = await call(endpoint, `GET /api/conversations/${id}/agent_final_response`);
  return (body as { readonly response: string }).response;
};

describe('a conversation with an MCP server and without a model', () => {
  it('runs commands and calls of tools in their order', async () => {
    await using server = await TestMcpServer.start();
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const text = `${shell('echo 1 >> log')}${tool('add', '{"a": 1, "b": 2}')}${shell('cat log')}`;
    const id = await begin(volume, endpoint, server, { text });
    await volume.until(endpoint, id, 'finished', 'error');
    expect(await responseOf(endpoint, id)).toBe(
      'All blocks succeeded.\n\n1. `echo 1 >> log`: exit code 0\n2. `tool add`: succeeded\n3. `cat log`: exit code 0',
    );
    const events = await eventsOf(endpoint, id);
    const actions = events.filter(({ kind }) => kind === 'ActionEvent');
    const results = events.filter(({ kind }) => kind === 'ObservationEvent');
    expect(actions[1]).toMatchObject({
      tool_name: 'add',
      action: { kind: 'MCPToolAction', data: { a: 1, b: 2 } },
      tool_call: { name: 'add', arguments: '{"a":1,"b":2}' },
    });
    expect(results[1]).toMatchObject({
      tool_name: 'add',
      action_id: actions[1]?.id,
      observation: {
        kind: 'MCPToolObservation',
        tool_name: 'add',
        is_error: false,
        content: [{ type: 'text', text: '3' }],
      },
    });
  });

  it.each([
    ['a tool that fails', 'fail', '', 'no, <secret-hidden>'],
    ['a tool that no server has', 'teleport', '{}', 'No MCP server of the conversation has'],
    ['arguments that are no JSON', 'add', '{"a": 1', 'are not a JSON object'],
    ['arguments that are a list', 'add', '[1]', 'are not a JSON object'],
  ])('stops at %s', async (_case, name, given, reason) => {
    await using server = await TestMcpServer.start();
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const text = `${tool(name, given)}${shell('touch never')}`;
    const id = await begin(volume, endpoint, server, { text });
    await volume.until(endpoint, id, 'finished', 'error');
    expect(existsSync(join(volume.workingDir, 'never'))).toBe(false);
    expect(await responseOf(endpoint, id)).toBe(
      `Block 1 failed, so I stopped there.\n\n1. \`tool ${name}\`: failed\n2. \`touch never\`: not run`,
    );
    const [result] = await eventsOf(endpoint, id, 'kind=ObservationEvent');
    expect(result).toMatchObject({ observation: { is_error: true } });
    expect(JSON.stringify(result)).toContain(reason);
    expect(JSON.stringify(result)).not.toContain(server.key);
  });

  it('stops at a server that does not answer', async () => {
    await using server = await TestMcpServer.start();
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    server.misbehaviour = 503;
    const id = await begin(volume, endpoint, server, { text: tool('add') });
    await volume.until(endpoint, id, 'finished', 'error');
    const [result] = await eventsOf(endpoint, id, 'kind=ObservationEvent');
    expect(JSON.stringify(result)).toContain('These servers do not answer: tools.');
  });

  it('calls a tool once a person has accepted it, also after a kill, and never a rejected one', async () => {
    await using server = await TestMcpServer.start();
    await using volume = await AgentVolume.create();
    const first = await volume.startReady();
    const text = `${tool('echo', '{"text": "x"}')}${tool('add', '{"a": 1, "b": 1}')}`;
    const confirmation_policy = { kind: 'AlwaysConfirm' };
    const id = await begin(volume, first.endpoint, server, { text, confirmation_policy });
    await volume.until(first.endpoint, id, 'waiting_for_confirmation');
    expect(server.calls).toEqual([]);
    await first.stop('SIGKILL');
    const { endpoint } = await volume.startReady();
    const respond = (accept: boolean) =>
      call(endpoint, `POST /api/conversations/${id}/events/respond_to_confirmation`, { accept });
    await respond(true);
    await eventually(async () =>
      (await eventsOf(endpoint, id, 'kind=ActionEvent')).length === 2 ? true : undefined,
    );
    await volume.until(endpoint, id, 'waiting_for_confirmation');
    expect(server.calls).toEqual(['echo']);
    await respond(false);
    await volume.until(endpoint, id, 'idle');
    await volume.client.run(endpoint, id);
    await volume.until(endpoint, id, 'finished');
    expect(server.calls).toEqual(['echo']);
    expect(await responseOf(endpoint, id)).toContain('2. `tool add`: rejected');
  });

  it('never repeats a call that was interrupted by a kill, and continues with the rest', async () => {
    await using server = await TestMcpServer.start();
    await using volume = await AgentVolume.create();
    const first = await volume.startReady();
    const text = `${tool('wait')}${tool('echo', '{"text": "x"}')}`;
    const id = await begin(volume, first.endpoint, server, { text });
    await eventually(() => (server.calls.length === 1 ? true : undefined));
    await first.stop('SIGKILL');
    const { endpoint } = await volume.startReady();
    expect((await volume.client.conversation(endpoint, id))?.executionStatus).toBe('error');
    const [loss] = await eventsOf(endpoint, id, 'kind=AgentErrorEvent');
    expect(loss).toMatchObject({ tool_name: 'wait' });
    await volume.client.run(endpoint, id);
    await volume.until(endpoint, id, 'error');
    expect(server.calls).toEqual(['wait', 'echo']);
    expect(await responseOf(endpoint, id)).toContain('1. `tool wait`: lost');
  });

  it('is interrupted at once during a call', async () => {
    await using server = await TestMcpServer.start();
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const id = await begin(volume, endpoint, server, { text: tool('wait') });
    await eventually(() => (server.calls.length === 1 ? true : undefined));
    await volume.client.interrupt(endpoint, id);
    expect((await volume.client.conversation(endpoint, id))?.executionStatus).toBe('paused');
  });

  it('shows nothing of its servers, and stores them sealed', async () => {
    await using server = await TestMcpServer.start();
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const id = await begin(volume, endpoint, server, { text: tool('fail') });
    await volume.until(endpoint, id, 'finished', 'error');
    const { body } = await call(endpoint, `GET /api/conversations/${id}`);
    const folder = join(volume.folder, 'conversations', id);
    const meta = await readFile(join(folder, 'meta.json'), 'utf8');
    const log = await readFile(join(folder, 'events.jsonl'), 'utf8');
    for (const text of [JSON.stringify(body), meta, log])
      for (const secret of [server.key, server.url, 'token-of-mcp'])
        expect(text).not.toContain(secret);
  });
});

describe('a conversation with an MCP server and a model', () => {
  const settingsOf = (llm: ModelServer) => ({
    llm: { model: 'm', base_url: llm.baseUrl, api_key: 'k', num_retries: 0 },
  });

  it('calls the tools that the model asks for', async () => {
    await using llm = await ModelServer.start(
      { tool: 'add', arguments: { a: 20, b: 22 } },
      { tool: 'fail', arguments: {} },
      finish,
    );
    await using server = await TestMcpServer.start();
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const id = await begin(volume, endpoint, server, { text: 'Add.', settings: settingsOf(llm) });
    await volume.until(endpoint, id, 'finished', 'error');
    expect(server.calls).toEqual(['add', 'fail']);
    const [, second, third] = llm.requests();
    expect(second?.messages.at(-1)).toMatchObject({ role: 'tool', content: '42' });
    expect(third?.messages.at(-1)?.content).toBe('no, <secret-hidden>\n[the tool failed]');
    expect(server.methods.filter((method) => method === 'tools/list')).toHaveLength(1);
  });

  it('works without the tools of a server that does not answer', async () => {
    await using llm = await ModelServer.start({ tool: 'add', arguments: { a: 1, b: 2 } }, finish);
    await using server = await TestMcpServer.start();
    server.misbehaviour = 500;
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const id = await begin(volume, endpoint, server, { text: 'Add.', settings: settingsOf(llm) });
    const { executionStatus } = await volume.until(endpoint, id, 'finished', 'error');
    expect(executionStatus).toBe('finished');
    expect(llm.requests()[1]?.messages.at(-1)?.content).toContain('There is no tool add');
  });
});
