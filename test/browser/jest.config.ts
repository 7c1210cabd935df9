import type { Config } from 'jest';
import base from '../../jest.config.ts';

const config: Config = {
  ...base,
  rootDir: '../..',
  testMatch: ['<rootDir>/test/browser/**/*.browser.ts'],
  // A browser and its servers need both cores.
  maxWorkers: 1,
  testTimeout: 200_000,
};

export default config;
