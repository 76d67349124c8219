// Writes files as torch.export.save does, of programs made up by a test.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace stringline {

// Inputs of a node: a tensor's name, a number, or any other JSON in the schema's form.
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
  // Another name for a parameter's memory.
  std::string Alias(const std::string& name, const std::string& of);
  std::string Buffer(const std::string& name, const std::vector<int64_t>& sizes,
                     const std::vector<float>& values);
  // Token numbers.
  std::string Input(const std::string& name, const std::vector<int64_t>& sizes);
  // The node "NAME", with the output "NAME". `type` is the schema's number.
  std::string Node(const std::string& op, const TorchInputs& inputs, const std::string& name,
                   const std::vector<int64_t>& sizes, const std::string& module = "", int type = 7);
  void Output(const std::string& value);

  // The program, which may be changed before Write.
  nlohmann::json program;
  nlohmann::json weights;                    // the weights' config
  std::map<std::string, std::string> files;  // under the root, beside the program and the config
  std::set<std::string> compressed;          // those of the files that are deflated

  void Write(const std::string& path) const;

 private:
  void Describe(const std::string& value, const std::vector<int64_t>& sizes, int type);
  nlohmann::json& graph() { return program["graph_module"]["graph"]; }
  nlohmann::json& signature() { return program["graph_module"]["signature"]; }
};

}  // namespace stringline
