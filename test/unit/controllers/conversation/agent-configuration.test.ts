import type { AgentCredentials } from '../../../../src/agent/credentials.ts';
import {
  AgentConfigurations,
  type AgentConfigurationsOptions,
} from '../../../../src/controllers/conversation/agent-configuration.ts';
import { StartFailure } from '../../../../src/controllers/conversation/start/stage.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import type {
  SandboxTemplate,
  SandboxTemplateSpec,
} from '../../../../src/resources/sandbox-template.ts';
import { SandboxKeys } from '../../../../src/agent/keys.ts';
import { conversationIdOf } from '../../../../src/resources/ids.ts';
import { aConversation, aSandbox, aTemplate } from '../../../support/builders.ts';

type Given = Partial<SandboxTemplateSpec['agent']>;
type Chosen = NonNullable<NonNullable<Parameters<typeof aConversation>[0]>['spec']>['agent'];

const keys: AgentCredentials = {
  of: (owner, name) => Promise.resolve(name === 'openai' ? `key-of-${owner}` : undefined),
};

const sandboxKeys = new SandboxKeys([Buffer.alloc(32, 1)]);
const sandbox = aSandbox({ name: 'one' });
const agentSide = {
  url: 'http://callback.example/',
  namespace: aConversation().metadata.namespace,
};

const configurations = (
  given: Given,
  {
    models,
    ...options
  }: Pick<SandboxTemplateSpec, 'models'> & Partial<AgentConfigurationsOptions> = {},
) => {
  const templates = new IndexedStore<SandboxTemplate>();
  templates.set(
    aTemplate({
      agent: { workingDir: '/workspace', ...given },
      ...(models === undefined ? {} : { models }),
    }),
  );
  return new AgentConfigurations({
    credentials: keys,
    keys: sandboxKeys,
    stores: { templates },
    ownerSettings: { secretsOf: () => Promise.resolve([]) },
    ...options,
  });
};
const configure = (
  given: Given,
  chosen: Chosen = {},
  options: Parameters<typeof configurations>[1] = {},
) =>
  configurations(given, options).of(
    aConversation({ spec: { owner: 'alice', agent: chosen } }),
    sandbox,
  );

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
    expect(await configurations(given).llmWithKey(conversation, sandbox)).toMatchObject({
      model: 'openai/other',
      apiKey: 'key-of-alice',
    });
    expect(
      await configurations({ ...given, allowedModels: [] }).llmWithKey(conversation, sandbox),
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
    const shown = await configurations({ credential: 'openai' }).shown(text, {
      conversation: aConversation({ spec: { owner: 'alice' } }),
      sandbox,
    });
    expect(shown).toBe(
      'LLMAuthenticationError: Incorrect API key provided: <redacted>. You can find …',
    );
  });
});

describe('the configuration of an agent whose model the gateway relays', () => {
  const given: Given = {
    model: 'openai/m',
    baseUrl: 'https://models.example/v1',
    credential: 'openai',
  };
  const conversation = aConversation({ spec: { owner: 'alice' } });
  const id = conversationIdOf(conversation);
  const relayed = {
    baseUrl: `http://callback.example/models/one/${id}`,
    apiKey: sandboxKeys.modelsToken(sandbox.metadata.uid, id),
  };

  it("has the relay's address and the sandbox's token, with no key and no address of the template", async () => {
    const configuration = await configure(given, { model: 'openai/other' }, { agentSide });
    expect(configuration.llm).toEqual({ model: 'openai/other', ...relayed });
    expect(JSON.stringify(configuration)).not.toMatch(/key-of-alice|models\.example/);
    expect(await configurations(given, { agentSide }).llmWithKey(conversation, sandbox)).toEqual({
      model: 'openai/m',
      ...relayed,
    });
  });

  it('has the address of a relay that is not at the callback server', async () => {
    const apart = { ...agentSide, modelsUrl: 'http://models.example' };
    const { llm } = await configure(given, {}, { agentSide: apart });
    expect(llm).toEqual({
      model: 'openai/m',
      ...relayed,
      baseUrl: `http://models.example/models/one/${id}`,
    });
    const tested = configurations(given, { agentSide: apart });
    expect(llm && tested.isOwn(llm, conversation, sandbox)).toBe(true);
  });

  it('has a token where the template names no key', async () => {
    const { llm } = await configure({ model: 'openai/m' }, {}, { agentSide });
    expect(llm).toEqual({ model: 'openai/m', ...relayed });
  });

  it('has another token for another owner of the sandbox', async () => {
    const moved = { ...sandbox, spec: { ...sandbox.spec, handovers: 1 } };
    const llm = await configurations(given, { agentSide }).llmWithKey(conversation, moved);
    expect(llm?.apiKey).not.toBe(relayed.apiKey);
  });

  it('has the key where the template or the namespace has no relay', async () => {
    const direct = { model: 'openai/m', baseUrl: given.baseUrl, apiKey: 'key-of-alice' };
    const off = { agentSide, models: { relay: false } };
    expect((await configure(given, {}, off)).llm).toEqual(direct);
    const elsewhere = { agentSide: { ...agentSide, namespace: 'elsewhere' } };
    expect((await configure(given, {}, elsewhere)).llm).toEqual(direct);
    expect((await configure(given, {}, { agentSide, models: { passThrough: true } })).llm).toEqual({
      model: 'openai/m',
      ...relayed,
    });
  });

  it('is nothing without a model', async () => {
    expect((await configure({}, {}, { agentSide })).llm).toBeUndefined();
  });

  it.each<[string, Given, string]>([
    ['a missing key', { ...given, credential: 'gone' }, 'ModelCredentialMissing'],
    ['an unknown address', { model: 'bedrock/m' }, 'ModelAddressUnknown'],
    [
      'an agent of a command line without an address',
      { model: 'openai/m', kind: 'acp', acp: { command: ['mine'], allowAlways: false } },
      'ModelAddressUnknown',
    ],
  ])('fails before there is a sandbox, and later, for %s', async (_name, wrong, code) => {
    const refused = { name: 'StartFailure', code };
    const tested = configurations(wrong, { agentSide });
    await expect(tested.check(conversation)).rejects.toMatchObject(refused);
    await expect(tested.of(conversation, sandbox)).rejects.toMatchObject(refused);
  });

  it('names what the template has to set for an unknown address', async () => {
    await expect(configure({ model: 'bedrock/m' }, {}, { agentSide })).rejects.toThrow(
      'The gateway does not know the address of the model bedrock/m: the sandbox template default has to set agent.baseUrl, or models.relay: false.',
    );
    expect((await configure({ model: 'bedrock/m' }, {}, {})).llm).toEqual({ model: 'bedrock/m' });
  });

  it('hides the token and the key in texts of the agent', async () => {
    const tested = configurations(given, { agentSide });
    const place = { conversation, sandbox };
    expect(await tested.shown(`rejected: ${relayed.apiKey}, key-of-alice`, place)).toBe(
      'rejected: <redacted>, <redacted>',
    );
    const secrets = await tested.secretsOf(conversation, sandbox, new AbortController().signal);
    expect(secrets.map(({ value }) => value)).toEqual(['key-of-alice', relayed.apiKey]);
  });
});
