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
      JSON.stringify([{ ...price, cachedInputPerMillion: 0, cacheWritePerMillion: 2 }]),
      [{ ...price, cachedInputPerMillion: 0, cacheWritePerMillion: 2 }],
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
