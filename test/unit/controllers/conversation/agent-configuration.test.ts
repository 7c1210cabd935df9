import type { AgentCredentials } from '../../../../src/agent/credentials.ts';
import { AgentConfigurations } from '../../../../src/controllers/conversation/agent-configuration.ts';
import { StartFailure } from '../../../../src/controllers/conversation/start/stage.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import type {
  SandboxTemplate,
  SandboxTemplateSpec,
} from '../../../../src/resources/sandbox-template.ts';
import { aConversation, aTemplate } from '../../../support/builders.ts';

type Given = Partial<SandboxTemplateSpec['agent']>;
type Chosen = NonNullable<NonNullable<Parameters<typeof aConversation>[0]>['spec']>['agent'];

const keys: AgentCredentials = {
  of: (owner, name) => Promise.resolve(name === 'openai' ? `key-of-${owner}` : undefined),
};

const configurations = (given: Given) => {
  const templates = new IndexedStore<SandboxTemplate>();
  templates.set(aTemplate({ agent: { workingDir: '/workspace', ...given } }));
  return new AgentConfigurations({
    credentials: keys,
    stores: { templates },
    ownerSettings: { secretsOf: () => Promise.resolve([]) },
  });
};
const configure = (given: Given, chosen: Chosen = {}) =>
  configurations(given).of(aConversation({ spec: { owner: 'alice', agent: chosen } }));

describe('the configuration of an agent', () => {
  it('is nothing where neither template nor conversation say anything', async () => {
    expect(await configure({})).toEqual({
      llm: undefined,
      tools: undefined,
      confirmationPolicy: undefined,
      maxIterations: undefined,
    });
  });

  it("is the template's choice, with the owner's key", async () => {
    const given: Given = {
      model: 'openai/m',
      baseUrl: 'https://models.example/v1',
      credential: 'openai',
      tools: ['terminal'],
      confirmationPolicy: 'ConfirmRisky',
      maxIterations: 7,
    };
    expect(await configure(given)).toEqual({
      llm: { model: 'openai/m', baseUrl: 'https://models.example/v1', apiKey: 'key-of-alice' },
      tools: ['terminal'],
      confirmationPolicy: 'ConfirmRisky',
      maxIterations: 7,
    });
  });

  it("is the conversation's choice where it has one, also of no tools; the address and the key stay the template's", async () => {
    const given: Given = {
      model: 'openai/m',
      baseUrl: 'https://models.example/v1',
      credential: 'openai',
      tools: ['terminal'],
      confirmationPolicy: 'AlwaysConfirm',
    };
    const chosen: Chosen = { model: 'openai/other', tools: [], confirmationPolicy: 'NeverConfirm' };
    expect(await configure(given, chosen)).toMatchObject({
      llm: { model: 'openai/other', baseUrl: 'https://models.example/v1', apiKey: 'key-of-alice' },
      tools: [],
      confirmationPolicy: 'NeverConfirm',
    });
  });

  it('is no model that the template does not allow, and no key for one that it does not allow any more', async () => {
    const given: Given = {
      model: 'openai/m',
      baseUrl: 'https://models.example/v1',
      credential: 'openai',
    };
    const failure: unknown = await configure(given, { model: 'huggingface/m' }).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(StartFailure);
    expect(failure).toMatchObject({
      code: 'ModelNotAllowed',
      message: 'The sandbox template default does not allow the model huggingface/m.',
    });
    const conversation = aConversation({
      spec: { owner: 'alice', agent: { model: 'openai/other' } },
    });
    expect(await configurations(given).llmWithKey(conversation)).toMatchObject({
      model: 'openai/other',
      apiKey: 'key-of-alice',
    });
    expect(
      await configurations({ ...given, allowedModels: [] }).llmWithKey(conversation),
    ).toBeUndefined();
  });

  it.each<[string, Given]>([
    ['openhands', { kind: 'openhands' }],
    ['acp', { kind: 'acp', acp: { agent: 'codex', allowAlways: false } }],
  ])('has a model that the template allows alone, for the kind %s', async (_kind, agent) => {
    const given: Given = { ...agent, model: 'gpt-5', allowedModels: ['gpt-5-*'] };
    expect((await configure(given, { model: 'gpt-5-mini' })).llm).toEqual({ model: 'gpt-5-mini' });
    await expect(configure(given, { model: 'o9' })).rejects.toMatchObject({
      code: 'ModelNotAllowed',
    });
  });

  it('has no key where the template names none', async () => {
    expect((await configure({ model: 'openai/m' })).llm).toEqual({ model: 'openai/m' });
  });

  it.each<[string, Given]>([
    ['with a model', { model: 'openai/m', credential: 'gone' }],
    ['without one', { credential: 'gone' }],
  ])('can not be said without the key that the template names, %s', async (_name, given) => {
    const failure: unknown = await configure(given).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(StartFailure);
    expect(failure).toMatchObject({
      code: 'ModelCredentialMissing',
      message: expect.stringMatching(/credential gone, .*template default/) as string,
    });
  });

  it("of the agent's words has no key in it", async () => {
    const text = 'LLMAuthenticationError: Incorrect API key provided: key-of-alice. You can find …';
    const shown = await configurations({ credential: 'openai' }).shown(
      text,
      aConversation({ spec: { owner: 'alice' } }),
    );
    expect(shown).toBe(
      'LLMAuthenticationError: Incorrect API key provided: <redacted>. You can find …',
    );
  });
});
