export const NewRunPage = () => null; export const ComparePage = () => null;
