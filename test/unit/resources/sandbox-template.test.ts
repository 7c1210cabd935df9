import type { Json } from '../../../packages/local-cluster/src/json/json.ts';
import type { Schema } from '../../../packages/local-cluster/src/schema/structural-schema.ts';
import { validate } from '../../../packages/local-cluster/src/schema/validate.ts';
import { crdOf } from '../../../src/resources/crd.ts';
import {
  archiveRulesOf,
  sandboxTemplateDefinition,
  sandboxTemplateSpecSchema,
} from '../../../src/resources/sandbox-template.ts';
import { shapeOf } from '../../../src/resources/schema.ts';
import { aTemplate } from '../../support/builders.ts';

const schema = crdOf(sandboxTemplateDefinition).spec.versions[0]?.schema
  .openAPIV3Schema as unknown as Schema;
const agentOf = (acp: object) => ({ kind: 'acp', workingDir: '/workspace', acp });
const errorsOf = (agent: object): readonly string[] => {
  const template = { spec: { podTemplate: { spec: { containers: [] } }, agent } };
  return validate(template as unknown as Json, schema).map(
    ({ field, message }) => `${field}: ${message.replace('Invalid value: "object": ', '')}`,
  );
};

describe('an agent of the Agent Client Protocol in a template', () => {
  it.each<[string, object]>([
    ['by its name', { agent: 'codex' }],
    ['by its command', { command: ['my-agent', '--acp'] }],
    [
      'with every setting',
      {
        agent: 'claude',
        mode: 'plan',
        env: { HTTPS_PROXY: 'http://proxy', _x1: '' },
        allowAlways: true,
        mcpServers: [
          { name: 'docs', url: 'https://mcp.example.com:8443/v1?all=true', type: 'sse' },
          { name: 'local', url: 'http://[::1]:8080' },
          { name: 'files', command: 'mcp-files', args: ['--root', '/workspace'], env: { A: 'b' } },
        ],
      },
    ],
  ])('is accepted %s', (_case, acp) => {
    expect(errorsOf(agentOf(acp))).toEqual([]);
  });

  const server = (fields: object) => agentOf({ agent: 'codex', mcpServers: [fields] });
  it.each<[string, object, string]>([
    ['kind acp without acp', { kind: 'acp' }, 'spec.agent.acp: acp must be present with kind acp'],
    [
      'acp with another kind',
      { kind: 'openhands', acp: { agent: 'codex' } },
      'spec.agent.acp: acp must be present with kind acp, and absent with every other kind',
    ],
    [
      'acp without a kind',
      { acp: { agent: 'codex' } },
      'spec.agent.acp: acp must be present with kind acp',
    ],
    ['an unknown agent', agentOf({ agent: 'codec' }), 'supported values: "codex", "claude"'],
    [
      'neither agent nor command',
      agentOf({}),
      'spec.agent.acp.agent: exactly one of agent and command must be present: agent is one of codex, claude, qwen, opencode, gemini, kimi',
    ],
    [
      'both of them',
      agentOf({ agent: 'codex', command: ['codex-acp'] }),
      'spec.agent.acp.agent: exactly one of agent and command must be present',
    ],
    ['a command without a program', agentOf({ command: [] }), 'spec.agent.acp.command'],
    [
      'a command of too many parts',
      agentOf({ command: Array.from({ length: 33 }, () => 'x') }),
      'spec.agent.acp.command',
    ],
    [
      'a name that no variable has',
      agentOf({ agent: 'codex', env: { 'a-b': 'c' } }),
      'spec.agent.acp.env: each name in env must consist of letters, digits and underscores',
    ],
    [
      'a server with url and command',
      server({ name: 'a', url: 'http://a', command: 'a' }),
      'spec.agent.acp.mcpServers[0].url: exactly one of url and command must be present',
    ],
    [
      'a server with neither',
      server({ name: 'a' }),
      'spec.agent.acp.mcpServers[0].url: exactly one of url and command must be present',
    ],
    [
      'a server whose URL has a user',
      server({ name: 'a', url: 'http://user:password@a' }),
      'mcpServers[0].url: url must be an http or https URL without user, fragment and white space',
    ],
    [
      'a server of another scheme',
      server({ name: 'a', url: 'file:///etc/passwd' }),
      'mcpServers[0].url: url must be an http or https URL',
    ],
    [
      'a transport of a program',
      server({ name: 'a', command: 'a', type: 'http' }),
      'mcpServers[0].type: type is allowed with url only',
    ],
    [
      'an unknown transport',
      server({ name: 'a', url: 'http://a', type: 'stdio' }),
      'supported values: "http", "sse"',
    ],
    [
      'arguments of a URL',
      server({ name: 'a', url: 'http://a', args: ['b'] }),
      'mcpServers[0].args: args is allowed with command only',
    ],
    [
      'an environment of a URL',
      server({ name: 'a', url: 'http://a', env: { B: 'c' } }),
      'mcpServers[0].env: env is allowed with command only',
    ],
    [
      'two servers of one name',
      agentOf({
        agent: 'codex',
        mcpServers: [
          { name: 'a', url: 'http://a' },
          { name: 'a', command: 'a' },
        ],
      }),
      'spec.agent.acp.mcpServers[1]: Duplicate value',
    ],
  ])('is refused: %s', (_case, agent, error) => {
    expect(errorsOf(agent)).toContainEqual(expect.stringContaining(error));
  });

  it('stays in caches where a rule refuses it now', () => {
    const stored = {
      podTemplate: {},
      agent: agentOf({ env: { 'a-b': 'c' }, mcpServers: [{ name: 'a', url: 'ftp://a' }] }),
    };
    expect(sandboxTemplateSpecSchema.safeParse(stored).error).toBeUndefined();
    expect(shapeOf(sandboxTemplateSpecSchema)(stored)).toBe(true);
  });
});

describe('the archive of a template', () => {
  const errors = (archive: object): readonly string[] => {
    const spec = { podTemplate: { spec: { containers: [] } }, archive };
    return validate({ spec } as unknown as Json, schema).map(
      ({ field, message }) => `${field}: ${message}`,
    );
  };

  it.each([
    [{}],
    [{ enabled: false, retention: '720h', maxBytes: 1 }],
    [{ maxBytes: 2 ** 40, retention: '0s' }],
  ])('may be %j', (archive) => {
    expect(errors(archive)).toEqual([]);
  });

  it.each([
    [{ maxBytes: 0 }, 'spec.archive.maxBytes'],
    [{ maxBytes: 2 ** 40 + 1 }, 'spec.archive.maxBytes'],
    [{ maxBytes: 1.5 }, 'spec.archive.maxBytes'],
    [{ maxBytes: '256Mi' }, 'spec.archive.maxBytes'],
    [{ retention: '30d' }, 'spec.archive.retention'],
    [{ retention: '' }, 'spec.archive.retention'],
    [{ enabled: 'true' }, 'spec.archive.enabled'],
  ])('may not be %j', (archive, field) => {
    expect(errors(archive)[0]).toContain(field);
  });

  it('has defaults where the template says nothing, or is not known', () => {
    const defaults = { enabled: true, maxBytes: 268_435_456 };
    expect(archiveRulesOf(undefined)).toEqual(defaults);
    expect(archiveRulesOf(aTemplate())).toEqual(defaults);
    const own = { enabled: false, maxBytes: 5, retention: '1h' };
    expect(archiveRulesOf(aTemplate({ archive: own }))).toEqual(own);
    expect(
      sandboxTemplateSpecSchema.parse({ podTemplate: {}, archive: { retention: '1h' } }).archive,
    ).toEqual({ ...defaults, retention: '1h' });
  });
});

describe('the models of a template', () => {
  const price = { model: 'gpt-5*', inputPerMillion: 1.25, outputPerMillion: 10 };
  const errors = (models: object) => {
    const spec = { podTemplate: { spec: { containers: [] } }, agent: {}, models };
    return validate({ spec } as Json, schema).map(({ field, message }) => `${field}: ${message}`);
  };

  it.each<[string, object]>([
    ['nothing', {}],
    ['every field', { relay: false, passThrough: true, maxOutputTokens: 1, prices: [price] }],
    ['prices of zero', { prices: [{ ...price, inputPerMillion: 0, cachedInputPerMillion: 0 }] }],
  ])('may have %s', (_name, models) => {
    expect(errors(models)).toEqual([]);
    const template = aTemplate();
    expect(shapeOf(sandboxTemplateSpecSchema)({ ...template.spec, models })).toBe(true);
  });

  it.each<[string, object, string]>([
    [
      'a negative price',
      { prices: [{ ...price, outputPerMillion: -1 }] },
      'spec.models.prices[0].outputPerMillion',
    ],
    [
      'a text as a price',
      { prices: [{ ...price, outputPerMillion: '1' }] },
      'spec.models.prices[0].outputPerMillion',
    ],
    [
      'no price of output',
      { prices: [{ model: 'm', inputPerMillion: 1 }] },
      'spec.models.prices[0].outputPerMillion',
    ],
    [
      'two prices of one name',
      { prices: [price, price] },
      'spec.models.prices[1]: Duplicate value',
    ],
    [
      'a name with a space',
      { prices: [{ ...price, model: 'a b' }] },
      'model must be the name of a model, in which * matches any characters',
    ],
    ['no output tokens', { maxOutputTokens: 0 }, 'spec.models.maxOutputTokens'],
    ['another type', { relay: 'no' }, 'spec.models.relay'],
  ])('are refused for %s', (_name, models, error) => {
    expect(errors(models)).toContainEqual(expect.stringContaining(error));
  });
});
