import { readGatewayConfig } from '../../../src/config/cluster.ts';

const pricesIn = (MODELS_PRICES: string) =>
  readGatewayConfig({ MASTER_KEY_FILES: '/key', MODELS_PRICES }).MODELS_PRICES;

const price = { model: 'gpt-5*', inputPerMillion: 1.25, outputPerMillion: 10 };

describe('the prices of models', () => {
  it.each<[string, string, readonly unknown[]]>([
    ['nothing', '', []],
    ['JSON', JSON.stringify([price]), [price]],
    ['YAML', '- {model: gpt-5*, inputPerMillion: 1.25, outputPerMillion: 10}', [price]],
    ['comments alone', '# none', []],
    [
      'all fields',
      JSON.stringify([
        { ...price, cachedInputPerMillion: 0, cacheWritePerMillion: 2, contextWindow: 131_072 },
      ]),
      [{ ...price, cachedInputPerMillion: 0, cacheWritePerMillion: 2, contextWindow: 131_072 }],
    ],
  ])('are read from %s', (_name, text, expected) => {
    expect(pricesIn(text)).toEqual(expected);
  });

  const number = 'must be a number of USD from 0 to 1000000';
  it.each<[string, string, string]>([
    ['text that is not YAML', '[{', 'must be a JSON or YAML list of prices, for example'],
    ['an object', '{}', 'must be a JSON or YAML list of prices, for example'],
    ['an entry that is a text', '[gpt-5]', 'entry 1: must be an object'],
    [
      'no output price',
      '[{"model":"m","inputPerMillion":1}]',
      `entry 1: outputPerMillion: ${number}`,
    ],
    [
      'a negative price',
      JSON.stringify([price, { ...price, inputPerMillion: -1 }]),
      `entry 2: inputPerMillion: ${number}`,
    ],
    [
      'a price without bounds',
      '[{model: m, inputPerMillion: .inf, outputPerMillion: 1}]',
      `entry 1: inputPerMillion: ${number}`,
    ],
    [
      'no number',
      JSON.stringify([{ ...price, cachedInputPerMillion: '1' }]),
      `entry 1: cachedInputPerMillion: ${number}`,
    ],
    [
      'no context window',
      JSON.stringify([{ ...price, contextWindow: 0 }]),
      'entry 1: contextWindow: must be a whole number from 1 to 100000000',
    ],
    [
      'a misspelt field',
      JSON.stringify([{ ...price, cachedPerMillion: 1 }]),
      'entry 1: cachedPerMillion: not a field of a price',
    ],
    [
      'a name with a space',
      JSON.stringify([{ ...price, model: 'a b' }]),
      'entry 1: model: must be the name of a model, in which * matches any characters',
    ],
    ['too many', JSON.stringify(Array.from({ length: 65 }, () => price)), 'has too many entries'],
  ])('are refused for %s', (_name, text, message) => {
    expect(() => pricesIn(text)).toThrow(`MODELS_PRICES: ${message}`);
  });
});

const limitsIn = (MODELS_LIMITS: string) =>
  readGatewayConfig({ MASTER_KEY_FILES: '/key', MODELS_LIMITS }).MODELS_LIMITS;

describe('the limits of keys of models', () => {
  it.each<[string, string, readonly unknown[]]>([
    ['nothing', '', []],
    ['JSON', '[{"credential":"team","calls":20}]', [{ credential: 'team', calls: 20 }]],
    [
      'YAML with all fields',
      '- {credential: a_B-1, calls: 1, tokensPerMinute: 2, perOwner: {calls: 3, tokensPerMinute: 4}}',
      [
        {
          credential: 'a_B-1',
          calls: 1,
          tokensPerMinute: 2,
          perOwner: { calls: 3, tokensPerMinute: 4 },
        },
      ],
    ],
  ])('are read from %s', (_name, text, expected) => {
    expect(limitsIn(text)).toEqual(expected);
  });

  const credential = 'must be the name of a credential: up to 63 letters, digits, - and _';
  const calls = 'must be a whole number from 1 to 10000';
  it.each<[string, string, string]>([
    ['text that is not YAML', '[{', 'must be a JSON or YAML list of limits, for example'],
    ['an object', '{}', 'must be a JSON or YAML list of limits, for example'],
    ['an entry that is a text', '[team]', 'entry 1: must be an object'],
    ['no credential', '[{calls: 1}]', `entry 1: credential: ${credential}`],
    ['the name of a file of an owner', '[{credential: a.b}]', `entry 1: credential: ${credential}`],
    ['no limit', '[{credential: a}]', 'entry 1: must have calls, tokensPerMinute or perOwner'],
    [
      'no limit of owners',
      '[{credential: a, perOwner: {}}]',
      'entry 1: must have calls, tokensPerMinute or perOwner',
    ],
    ['no calls', '[{credential: a, calls: 0}]', `entry 1: calls: ${calls}`],
    ['half a call', '[{credential: a, calls: 1.5}]', `entry 1: calls: ${calls}`],
    [
      'calls of owners without end',
      '[{credential: a, perOwner: {calls: .inf}}]',
      `entry 1: perOwner.calls: ${calls}`,
    ],
    [
      'too many tokens',
      '[{credential: a, tokensPerMinute: 1000000001}]',
      'entry 1: tokensPerMinute: must be a whole number from 1 to 1000000000',
    ],
    [
      'owners that are a number',
      '[{credential: a, perOwner: 4}]',
      'entry 1: perOwner: must be an object with calls and tokensPerMinute, or one of them',
    ],
    [
      'a misspelt field',
      '[{credential: a, calls: 1}, {credential: b, call: 1}]',
      'entry 2: call: not a field of a limit',
    ],
    [
      'a misspelt field of owners',
      '[{credential: a, perOwner: {call: 1}}]',
      'entry 1: perOwner: call: not a field of a limit',
    ],
    [
      'a credential twice',
      '[{credential: a, calls: 1}, {credential: b, calls: 1}, {credential: a, calls: 2}]',
      'entry 3: credential: a has an entry already',
    ],
    [
      'too many',
      JSON.stringify(Array.from({ length: 257 }, (_, n) => ({ credential: `c${n}`, calls: 1 }))),
      'has too many entries',
    ],
  ])('are refused for %s', (_name, text, message) => {
    expect(() => limitsIn(text)).toThrow(`MODELS_LIMITS: ${message}`);
  });
});
