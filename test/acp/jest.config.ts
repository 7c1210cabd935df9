import type { Config } from 'jest';
import base from '../../jest.config.ts';

const config: Config = {
  ...base,
  rootDir: '../..',
  testMatch: ['<rootDir>/test/acp/**/*.acp.ts'],
  testTimeout: 800_000,
};

export default config;
