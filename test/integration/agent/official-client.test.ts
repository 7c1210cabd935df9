import {
  ConversationClient,
  HooksClient,
  ServerClient,
  SkillsClient,
} from '@openhands/typescript-client/clients';
import { AgentVolume, eventually, script } from './agent-process.ts';

describe('the official client', () => {
  it('creates, follows, messages and deletes a conversation on the reference agent', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const options = { host: endpoint.baseUrl, apiKey: endpoint.sessionKey };
    const client = new ConversationClient(options);
    const { id } = await client.createConversation({
      agent: { llm: { model: '' }, tools: [] },
      workspace: { kind: 'LocalWorkspace', working_dir: volume.workingDir },
      initial_message: { role: 'user', content: script('echo hi').content },
      max_iterations: 500,
    });
    const ended = (status: string) => async () =>
      ((await client.getConversation(id)).execution_status as string) === status ? true : undefined;
    await eventually(ended('finished'));
    expect((await client.searchEvents(id, { limit: 100 })).items.map(({ kind }) => kind)).toContain(
      'ObservationEvent',
    );
    expect(await client.getEventCount(id)).toBeGreaterThan(5);
    await client.sendEvent(
      id,
      { role: 'user', content: script('sleep 30').content },
      { run: true },
    );
    await eventually(ended('running'));
    await client.interruptConversation(id);
    expect(await client.countConversations({ status: 'paused' as never })).toBe(1);
    expect((await client.getAgentFinalResponse(id)).response).toMatch(
      /No model is configured|All blocks succeeded/,
    );
    expect((await client.searchConversations()).items).toHaveLength(1);
    expect((await client.getConversations([id]))[0]).toMatchObject({ id });
    expect(await new HooksClient(options).loadHooks({ project_dir: volume.workingDir })).toEqual({
      hook_config: null,
    });
    expect((await new ServerClient(options).getServerInfo()).version).toBe('1.58.0');
    expect(
      (await new SkillsClient(options).getSkills({ project_dir: volume.workingDir })).skills,
    ).toEqual([]);
  });
});
