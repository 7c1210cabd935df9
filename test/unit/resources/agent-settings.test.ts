import fc from 'fast-check';
import {
  isModelAllowed,
  matchesPattern,
  type ModelChoice,
} from '../../../src/resources/agent-settings.ts';
import { cpuMsOf } from '../../support/cpu-time.ts';

const keyed: ModelChoice = {
  model: 'openai/m',
  baseUrl: 'https://models.example/v1',
  credential: 'openai',
};

describe('a model that a conversation names', () => {
  it.each<[string, ModelChoice, string, boolean]>([
    ['any, where nothing is said', {}, 'anthropic/claude', true],
    [
      'any at an address of its own without a key',
      { model: 'openai/m', baseUrl: 'http://vllm/v1' },
      'ollama/llama3:8b',
      true,
    ],
    [
      "the template's own, whatever its name",
      { model: 'vertex_ai/claude@2025', allowedModels: [] },
      'vertex_ai/claude@2025',
      true,
    ],
    ['no other, where none is listed', { model: 'openai/m', allowedModels: [] }, 'openai/n', false],
    ['one of the same provider, where there is a key', keyed, 'openai/other', true],
    ['one of the same provider in other letters', keyed, 'OpenAI/other', true],
    ['one of another provider, which would get the key', keyed, 'huggingface/m', false],
    ['a plain name, whose provider is found by the name', keyed, 'claude-opus', false],
    ['a plain name where the template has one', { ...keyed, model: 'm' }, 'gpt-5', true],
    [
      'any at the address where the template names no model',
      { ...keyed, model: undefined },
      'openai/m',
      true,
    ],
    [
      'none with a key that has no address',
      { model: 'openai/m', credential: 'openai' },
      'openai/n',
      false,
    ],
    [
      'one of a listed provider that gets the key',
      { credential: 'openai', allowedModels: ['openai/*'] },
      'openai/n',
      true,
    ],
    [
      'a listed name that gets the key',
      { credential: 'openai', allowedModels: ['gpt-5'] },
      'gpt-5',
      true,
    ],
    [
      'any provider, which would get the key',
      { credential: 'openai', allowedModels: ['*', '*/n', 'o*/n'] },
      'openai/n',
      false,
    ],
    [
      'one of a listed provider',
      { ...keyed, allowedModels: ['anthropic/*'] },
      'anthropic/claude-opus',
      true,
    ],
    [
      'one that is not listed, though of the same provider',
      { ...keyed, allowedModels: ['anthropic/*'] },
      'openai/n',
      false,
    ],
    [
      'a URL, whatever is listed',
      { allowedModels: ['*'] },
      'huggingface/https://evil.example/x',
      false,
    ],
    ['a way up', { allowedModels: ['*'] }, 'openai/../../x', false],
    ['a user in a URL', { allowedModels: ['*'] }, 'openai/m@evil.example', false],
    [
      'an @ that a pattern has',
      { allowedModels: ['vertex_ai/claude*@*'] },
      'vertex_ai/claude-sonnet@20250514',
      true,
    ],
    ['white space', {}, 'openai/m x', false],
    ['a query', {}, 'openai/m?x=1', false],
    ['control characters', {}, 'openai/m\u0000', false],
    ['nothing', {}, '', false],
    [
      'a name of Bedrock',
      {},
      'bedrock/arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-v1:0',
      true,
    ],
  ])('%s', (_case, template, chosen, expected) => {
    expect(isModelAllowed(chosen, template)).toBe(expected);
  });
});

describe('a pattern', () => {
  it.each<[string, string, boolean]>([
    ['gpt-5', 'gpt-5', true],
    ['gpt-5', 'gpt-5-mini', false],
    ['gpt-5', 'x-gpt-5', false],
    ['gpt-5*', 'gpt-5', true],
    ['*/m', 'openai/m', true],
    ['a*a', 'a', false],
    ['a*a', 'aa', true],
    ['a*bc*bc', 'abc', false],
    ['a*bc*bc', 'abcbc', true],
    ['**', '', true],
    ['*', 'anything/at:all', true],
  ])('%s takes %s: %s', (pattern, name, expected) => {
    expect(matchesPattern(name, pattern)).toBe(expected);
  });

  it('means what a regular expression would, and takes no longer for many stars', async () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*'), maxLength: 8 });
    fc.assert(
      fc.property(letters, letters, (pattern, text) => {
        const name = text.replaceAll('*', '');
        const expected = new RegExp(
          `^${pattern.replaceAll('.', '\\.').replaceAll('*', '.*')}$`,
        ).test(name);
        expect(matchesPattern(name, pattern)).toBe(expected);
      }),
      { numRuns: 2000 },
    );
    expect(
      await cpuMsOf(() => matchesPattern(`${'a'.repeat(255)}b`, `${'a*'.repeat(127)}c`)),
    ).toBeLessThan(1_000);
  });
});
