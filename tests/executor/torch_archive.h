// Writes files as torch.export.save does, of programs that a test makes up.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace stringline {

// Inputs of a node: a tensor's name, or a number, or whatever else as JSON in the schema's form.
using TorchInputs = std::vector<std::pair<std::string, nlohmann::json>>;
nlohmann::json TorchTensorInput(const std::string& value);
nlohmann::json TorchTensorsInput(const std::vector<std::string>& values);
nlohmann::json TorchInt(int64_t number);
nlohmann::json TorchInts(const std::vector<int64_t>& numbers);
nlohmann::json TorchFloat(double number);

class TorchArchive {
 public:
  TorchArchive();

  // A parameter of these sizes, float32, row-major; its value in the program is "p_NAME". Without
  // values they are 0.1, 0.2, ….
  std::string Param(const std::string& name, const std::vector<int64_t>& sizes,
                    std::vector<float> values = {});
  // Another name for the memory of a parameter.
  std::string Alias(const std::string& name, const std::string& of);
  std::string Buffer(const std::string& name, const std::vector<int64_t>& sizes,
                     const std::vector<float>& values);
  // Token numbers.
  std::string Input(const std::string& name, const std::vector<int64_t>& sizes);
  // The node is "NAME" and gives "NAME". `type` is the schema's number.
  std::string Node(const std::string& op, const TorchInputs& inputs, const std::string& name,
                   const std::vector<int64_t>& sizes, const std::string& module = "", int type = 7);
  void Output(const std::string& value);

  // To change before it is written.
  nlohmann::json program;
  nlohmann::json weights;                    // the config
  std::map<std::string, std::string> files;  // under the root, beside those two

  void Write(const std::string& path) const;

 private:
  void Describe(const std::string& value, const std::vector<int64_t>& sizes, int type);
  nlohmann::json& graph() { return program["graph_module"]["graph"]; }
  nlohmann::json& signature() { return program["graph_module"]["signature"]; }
};

}  // namespace stringline
