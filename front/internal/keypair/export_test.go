package keypair

// IterationsOf returns the iterations of a password in an encrypted key, 0 for other keys.
func IterationsOf(der []byte) int {
	var key encryptedKey
	var params pbes2
	var kdf pbkdf2Params
	if unmarshal(der, &key) != nil || unmarshal(key.Algorithm.Parameters.FullBytes, &params) != nil ||
		unmarshal(params.KDF.Parameters.FullBytes, &kdf) != nil {
		return 0
	}
	return kdf.Iterations
}
