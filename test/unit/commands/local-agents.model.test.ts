import { defaultTemplate } from '../../../src/commands/initial-objects.ts';
import { useLocalModel, type LocalModel } from '../../../src/commands/local-agents.ts';
import { sandboxTemplates } from '../../../src/resources/sandbox-template.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';

const address = 'http://127.0.0.1:11434/v1';

describe('the model of the environment', () => {
  let client: FakeKubeClient;
  beforeEach(async () => {
    client = new FakeKubeClient();
    await client.create(sandboxTemplates, defaultTemplate('default'));
  });
  const agentAfter = async (model: LocalModel) => {
    await useLocalModel(client, 'default', 'default', model);
    const {
      port: _port,
      workingDir: _dir,
      ...agent
    } = (await client.get(sandboxTemplates, 'default', 'default')).spec.agent;
    return agent;
  };
  const edit = (agent: object) =>
    client.mergePatch(sandboxTemplates, 'default', 'default', { spec: { agent } });

  it.each<[string, LocalModel, object]>([
    ['at an address', { LLM_MODEL: 'm', LLM_BASE_URL: address }, { model: 'm', baseUrl: address }],
    [
      'with a key at an address',
      { LLM_MODEL: 'openai/m', LLM_BASE_URL: address, LLM_API_KEY: 'k' },
      { model: 'openai/m', baseUrl: address, credential: 'model' },
    ],
    [
      'with a key where its name says: then no other model is given that key',
      { LLM_MODEL: 'openai/gpt-5', LLM_API_KEY: 'k' },
      { model: 'openai/gpt-5', credential: 'model', allowedModels: [] },
    ],
    [
      'of which there is only the key: then no model is given it',
      { LLM_API_KEY: 'k' },
      { credential: 'model', allowedModels: [] },
    ],
    ['without a key', { LLM_MODEL: 'ollama/m' }, { model: 'ollama/m' }],
    ['that there is none of', {}, {}],
  ])('%s', async (_case, model, expected) => {
    expect(await agentAfter(model)).toEqual(expected);
  });

  it('takes back what it has set, and leaves what others have', async () => {
    const keyed = { LLM_MODEL: 'openai/gpt-5', LLM_API_KEY: 'k' };
    await agentAfter(keyed);
    expect(await agentAfter({ ...keyed, LLM_BASE_URL: address })).not.toHaveProperty(
      'allowedModels',
    );
    await edit({ allowedModels: ['openai/gpt-5*'] });
    expect(await agentAfter({ ...keyed, LLM_BASE_URL: address })).toMatchObject({
      allowedModels: ['openai/gpt-5*'],
    });
    expect(await agentAfter(keyed)).toMatchObject({ allowedModels: ['openai/gpt-5*'] });
    await edit({ baseUrl: address, allowedModels: ['*', 'openai/gpt-5*'] });
    expect(await agentAfter(keyed)).toMatchObject({ allowedModels: ['openai/gpt-5*'] });
    expect(await agentAfter({})).toEqual({});
  });
});
