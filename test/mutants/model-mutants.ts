import type { TestedMutant } from './tested-mutant.ts';

const price = {
  file: 'src/models/model-price.ts',
  test: 'test/unit/models/model-price.test.ts',
  name: 'the cost of a call',
};
const worst = { ...price, name: 'the worst case is at least the cost of every call within it' };
const known = {
  file: 'src/models/known-model.ts',
  test: 'test/unit/models/known-model.test.ts',
  name: 'a name that only has a known one in it is unknown',
};
const worstCase = {
  file: 'src/models/worst-case.ts',
  test: 'test/unit/models/worst-case.test.ts',
  name: 'the worst case of a call',
};
const sums = {
  file: 'src/models/usage-rows.ts',
  test: 'test/unit/models/usage-rows.test.ts',
  name: 'what has no room is added to `other`',
};

/** Mistakes in what calls of models cost, and in what they may cost. */
export const modelMutants: Readonly<Record<string, TestedMutant>> = {
  'cached tokens are free': { ...price, from: '[cached, rates.cached],', to: '[cached, 0],' },
  'cached tokens are charged twice': {
    ...price,
    from: '[input - cached - writes, rates.input],',
    to: '[input - writes, rates.input],',
  },
  'the tier of a long input is ignored': {
    ...price,
    from: 'price.tiers.filter(({ start }) => inputTokens > start)',
    to: 'price.tiers.filter(({ start }) => inputTokens > start * 10)',
  },
  'a cache write of unknown length has the lower price': {
    ...price,
    from: '? Math.max(rates.write, rates.hourWrite)',
    to: '? rates.write',
  },
  'a part of a nano is free': { ...price, from: '(picos + 999n) / 1000n', to: 'picos / 1000n' },
  'the worst case has no tiers': {
    ...worst,
    from: 'beginningsOfTiers(prices).filter((start) => start < maxInputTokens)',
    to: 'beginningsOfTiers(prices).filter(() => false)',
  },
  'the worst case has no cache writes': {
    ...worst,
    from: 'Math.max(r.input, r.cached, r.write, r.hourWrite)',
    to: 'Math.max(r.input, r.cached)',
  },
  'the worst case has the price of its first moment': {
    ...worst,
    from: '(isConstant ? [atMs] : timesWithinHour(atMs))',
    to: '(isConstant ? [atMs] : [atMs])',
  },
  'a model without a price of output is free': {
    ...price,
    name: 'a model of the library has no price',
    from: 'if (!all.every(isWhole)) return undefined;',
    to: '',
  },
  'an unpriced model is free': {
    file: 'src/models/prices.ts',
    test: 'test/unit/models/prices.test.ts',
    name: 'is unknown, not 0, without any',
    from: 'return override === undefined ? known : overridden(',
    to: "return override === undefined ? (known ?? overridden({ model: '*', inputPerMillion: 0, outputPerMillion: 0 }, undefined)) : overridden(",
  },
  'an installation overrides its templates': {
    file: 'src/models/prices.ts',
    test: 'test/unit/models/prices.test.ts',
    name: 'is that of the template before both',
    from: '[...overrides, ...this.#installation]',
    to: '[...this.#installation, ...overrides]',
  },
  'a name that contains a known one has its price': {
    ...known,
    from: 'return isNamed ? { provider, model } : undefined;',
    to: 'return model && { provider, model };',
  },
  'a fine-tuned model costs as much as its base': {
    ...known,
    from: String.raw`/(?:^|\/)ft:|\.ft-/.test(name)`,
    to: "name === ''",
  },
  'the worst case has one answer': {
    ...worstCase,
    from: '(call.maxOutputTokens ?? maxOutputDefault) * call.answers',
    to: '(call.maxOutputTokens ?? maxOutputDefault)',
  },
  'content outside of the body is bounded by its bytes': {
    ...worstCase,
    from: 'call.isSelfContained ? bodyBytes : Infinity',
    to: 'bodyBytes',
  },
  'images are free': { ...worstCase, from: ' + call.images * tokensPerImage', to: '' },
  'the output is lowered without regard to the number of answers': {
    ...worstCase,
    name: 'the output that a budget allows',
    from: 'outputTokens: perAnswer * answers }',
    to: 'outputTokens: perAnswer }',
  },
  'a conversation without room is lost': {
    ...sums,
    from: 'addToConversation(conversations, other, row.lastDay, row.models);',
    to: '',
  },
  'sums may have any number of bytes': {
    ...sums,
    from: 'if (bytes <= maxSumsBytes) break;',
    to: 'if (bytes <= 100 * maxSumsBytes) break;',
  },
  'a cell of CSV is run as a formula': {
    file: 'src/models/usage-groups.ts',
    test: 'test/unit/models/usage-groups.test.ts',
    name: 'CSV has the key',
    from: "`'${text}` : text",
    to: 'text : text',
  },
};
